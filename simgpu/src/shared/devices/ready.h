/* The heads of a context's queues: which operation is first, and whether it may run now. */
#ifndef SIMGPU_READY_H
#define SIMGPU_READY_H

#include "state.h"

struct sg_op *sg_op_at(const struct sg_state *state, uint32_t context, uint32_t channel, uint64_t sequence);
/* Whether the queue has any operation, even one that is submitted in the future. */
bool sg_is_pending(const struct sg_state *state, uint32_t context, uint32_t channel);
/* The first operation, if its time has come. */
struct sg_op *sg_head_op(const struct sg_state *state, uint32_t context, uint32_t channel);
/* The first operation, if it may run now. */
struct sg_op *sg_ready_op(const struct sg_state *state, uint32_t context, uint32_t channel);
/* Whether the first operation of the queue may run now: its time has come, and no barrier holds it. */
bool sg_is_ready(const struct sg_state *state, uint32_t context, uint32_t channel);
bool sg_takes_device(const struct sg_op *op);
bool sg_wait_is_over(const struct sg_state *state, const struct sg_op *op);

#endif
