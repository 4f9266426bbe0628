/* Stretching of calls for race drills: a call takes a random time longer, if the environment asked cuInit for it. */
#ifndef SIMGPU_STRETCH_H
#define SIMGPU_STRETCH_H

#include <stdint.h>

/* Waits a random time, at most this long. */
void sg_stretch(uint64_t limit_ns);

#endif
