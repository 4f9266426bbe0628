/* Time on the devices: brings the state of all of them up to a moment. Pure but for the rings it reads and the locks that
 * say who is alive.
 */
#ifndef SIMGPU_TIMELINE_H
#define SIMGPU_TIMELINE_H

#include "state.h"

void sg_advance(struct sg_state *state, uint64_t until_ns);

/* A time before which the operation at `sequence` surely does not end; 0 when that depends on others. */
uint64_t sg_lower_bound(const struct sg_state *state, uint32_t context, uint32_t channel, uint64_t sequence);

/* Ends a context: its queue and memory are gone. */
void sg_drop_context(struct sg_state *state, uint32_t context);

#endif
