/* Race drills: stretches a call by a random time, if cuInit was told so. */
#ifndef SIMGPU_STRETCH_H
#define SIMGPU_STRETCH_H

#include <stdint.h>

/* Up to that long. */
void sg_stretch(uint64_t limit_ns);

#endif
