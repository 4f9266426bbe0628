/* The timeline: it brings the state of all devices up to a moment.
 *
 * The rule: it is pure, except for the rings that it reads and the locks that say which process is alive.
 */
#ifndef SIMGPU_TIMELINE_H
#define SIMGPU_TIMELINE_H

#include "state.h"

void sg_advance(struct sg_state *state, uint64_t until_ns);

/* A time before which the operation at `sequence` cannot end; 0 when that depends on others. */
uint64_t sg_lower_bound(const struct sg_state *state, uint32_t context, uint32_t channel, uint64_t sequence);

/* Ends a context, its queue and its memory. */
void sg_drop_context(struct sg_state *state, uint32_t context);

#endif
