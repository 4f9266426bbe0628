/* Reads the rings, changes nothing. */
#include "ready.h"

struct sg_op *sg_op_at(const struct sg_state *state, uint32_t context, uint32_t channel, uint64_t sequence) {
    return &sg_ring_at(state->map, context, channel)[sequence % SG_RING];
}

bool sg_is_pending(const struct sg_state *state, uint32_t context, uint32_t channel) {
    uint64_t tail = atomic_load_explicit(sg_tail_at(state->map, context, channel), memory_order_acquire);
    return tail > state->context[context].channel[channel].head;
}

struct sg_op *sg_head_op(const struct sg_state *state, uint32_t context, uint32_t channel) {
    if (!sg_is_pending(state, context, channel))
        return NULL;
    struct sg_op *op = sg_op_at(state, context, channel, state->context[context].channel[channel].head);
    return op->submit_ns <= state->core->now_ns ? op : NULL;
}

static bool precedes(const struct sg_op *other, const struct sg_op *op, uint32_t flag) {
    return other && other->order < op->order && other->flags & flag;
}

/* The legacy stream waits for all blocking ones before it, and they for it. */
static bool passes_barrier(const struct sg_state *state, uint32_t context, const struct sg_op *op) {
    if (op->flags & SG_OP_BLOCKING && precedes(sg_head_op(state, context, 0), op, SG_OP_LEGACY))
        return false;
    if (!(op->flags & SG_OP_LEGACY))
        return true;
    for (uint32_t channel = 1; channel < state->context[context].channels; channel++)
        if (precedes(sg_head_op(state, context, channel), op, SG_OP_BLOCKING))
            return false;
    return true;
}

struct sg_op *sg_ready_op(const struct sg_state *state, uint32_t context, uint32_t channel) {
    struct sg_op *op = sg_head_op(state, context, channel);
    return op && passes_barrier(state, context, op) ? op : NULL;
}

bool sg_is_ready(const struct sg_state *state, uint32_t context, uint32_t channel) {
    return sg_ready_op(state, context, channel) != NULL;
}

bool sg_takes_device(const struct sg_op *op) {
    return op->kind == SG_KERNEL || op->kind == SG_TOGETHER || op->kind == SG_FETCH || op->kind == SG_COPY;
}

bool sg_wait_is_over(const struct sg_state *state, const struct sg_op *op) {
    uint32_t context = op->target & 0xFFFF, channel = op->target >> 16 & 0xFFFF, serial = (uint32_t)(op->target >> 32);
    if (context >= SG_CONTEXTS || channel >= SG_CHANNELS || !sg_in_use(state->core, context))
        return true;
    const struct sg_context *other = &state->context[context];
    return other->serial != serial || channel >= other->channels || other->channel[channel].head > op->sequence;
}
