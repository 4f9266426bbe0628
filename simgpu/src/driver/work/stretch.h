/* What calls cost the host: nothing, a fixed time (as a driver needs it), or a random time for race drills.
 *
 * The rule: cuInit reads it from the environment; without any of these settings a call pays one test of a flag. */
#ifndef SIMGPU_STRETCH_H
#define SIMGPU_STRETCH_H

#include <stdint.h>

/* Waits a random time, at most this long. */
void sg_stretch(uint64_t limit_ns);
/* Keeps the processor busy for this long. */
void sg_spend(uint64_t cost_ns);

#endif
