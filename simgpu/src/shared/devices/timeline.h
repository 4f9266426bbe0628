/* Time on the devices: brings the state of all of them up to a moment. Pure but for the rings it reads. */
#ifndef SIMGPU_TIMELINE_H
#define SIMGPU_TIMELINE_H

#include "shared/process/client.h"

bool sg_is_alive(const struct sg_map *map, uint32_t owner);

void sg_advance(struct sg_state *state, uint64_t until_ns);

/* A time before which the operation at `sequence` surely does not end; 0 when that depends on others. */
uint64_t sg_lower_bound(const struct sg_state *state, uint32_t context, uint32_t channel, uint64_t sequence);

/* Ends a context: its queue and memory are gone. */
void sg_drop_context(struct sg_state *state, uint32_t context);

static inline bool sg_in_use(const struct sg_core *core, uint32_t context) {
    return core->used[context / 64] >> (context % 64) & 1;
}

/* The next used context after `context` (start with -1), or -1. */
int sg_next_used(const struct sg_core *core, int context);

/* The operation at the head of the queue may run now: its time has come and no barrier holds it. */
bool sg_is_ready(const struct sg_state *state, uint32_t context, uint32_t channel);

struct sg_op *sg_op_at(const struct sg_state *state, uint32_t context, uint32_t channel, uint64_t sequence);
/* Is there anything in the queue, be it submitted in the future? */
bool sg_is_pending(const struct sg_state *state, uint32_t context, uint32_t channel);
/* The head, if it may run now. */
struct sg_op *sg_ready_op(const struct sg_state *state, uint32_t context, uint32_t channel);
bool sg_takes_device(const struct sg_op *op);
bool sg_wait_is_over(const struct sg_state *state, const struct sg_op *op);
/* The head, if its time has come. */
struct sg_op *sg_head_op(const struct sg_state *state, uint32_t context, uint32_t channel);

#endif
