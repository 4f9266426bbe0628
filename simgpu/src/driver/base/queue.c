/* How work gets from a stream into the shared file, and how somebody waits for it.
 *
 * A submission writes one ring entry and moves the tail; it takes no lock that another process holds.  The entry's stamp
 * says when it was submitted; the devices' state is brought up to date by whoever looks next.
 */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

#include "places.h"
#include "shared/devices/timeline.h"
#include "shared/process/changes.h"
#include "shared/process/transaction.h"
#include "thread.h"

struct sg_stamp {
    _Atomic uint32_t references;
    _Atomic uint64_t ended_ns;
};

struct sg_stamp *sg_new_stamp(void) {
    struct sg_stamp *stamp = calloc(1, sizeof *stamp);
    if (stamp)
        atomic_store(&stamp->references, 1);
    return stamp;
}

void sg_release_stamp(struct sg_stamp *stamp) {
    if (stamp && atomic_fetch_sub(&stamp->references, 1) == 1)
        free(stamp);
}

static struct sg_op *entry(CUcontext context, uint32_t channel, uint64_t sequence) {
    return &sg_ring_at(&sg_client.map, context->index, channel)[sequence % SG_RING];
}

/* The ring entry is used again: what an event wants to know of it is kept first. */
static void save_stamp(CUcontext context, uint32_t channel, uint64_t sequence) {
    struct sg_queue *queue = &context->queue[channel];
    struct sg_stamp **kept = queue->stamps ? &queue->stamps[sequence % SG_RING] : NULL;
    if (!kept || !*kept)
        return;
    atomic_store(&(*kept)->ended_ns, atomic_load(&entry(context, channel, sequence)->done_ns));
    sg_release_stamp(*kept);
    *kept = NULL;
}

static void keep_stamp(struct sg_queue *queue, uint64_t sequence, struct sg_stamp *stamp) {
    if (!queue->stamps)
        queue->stamps = calloc(SG_RING, sizeof *queue->stamps);
    if (!queue->stamps)
        return;
    atomic_fetch_add(&stamp->references, 1);
    queue->stamps[sequence % SG_RING] = stamp;
}

struct look {
    bool ended, lost;
    uint64_t head, bound;
    uint32_t seen;
};

/* One look at the device: is `sequence` done, and if not, how long at least will it take? */
static struct look look_at(CUcontext context, uint32_t channel, uint64_t sequence) {
    struct look look = {.seen = sg_change_count()};
    struct sg_state state = sg_begin();
    if (!sg_place_of(&state, context)) {
        look.lost = look.ended = true;
    } else {
        look.head = state.context[context->index].channel[channel].head;
        look.ended = look.head > sequence;
        look.bound = look.ended ? 0 : sg_lower_bound(&state, context->index, channel, sequence);
    }
    sg_commit(&state);
    return look;
}

static uint64_t at_least_a_bit(uint64_t bound) {
    /* nothing known (it hangs on another queue): look again in a quarter of a millisecond */
    return bound > 1000 ? bound : 250000;
}

CUresult sg_wait_for(CUcontext context, uint32_t channel, uint64_t sequence) {
    for (;;) {
        struct look look = look_at(context, channel, sequence);
        if (look.ended)
            return look.lost ? CUDA_ERROR_CONTEXT_IS_DESTROYED : sg_usable(context);
        CUresult result = sg_usable(context);
        if (result != CUDA_SUCCESS)
            return result;
        sg_sleep(look.seen, at_least_a_bit(look.bound));
    }
}

bool sg_has_ended(CUcontext context, uint32_t channel, uint64_t sequence) {
    return look_at(context, channel, sequence).ended;
}

static CUresult wait_for_room(CUcontext context, uint32_t channel, uint64_t tail) {
    struct sg_queue *queue = &context->queue[channel];
    while (tail - queue->head_seen >= SG_RING) {
        struct look look = look_at(context, channel, tail - SG_RING);
        if (look.lost)
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        queue->head_seen = look.head;
        if (tail - look.head >= SG_RING)
            sg_sleep(look.seen, at_least_a_bit(look.bound));
        CUresult result = sg_usable(context);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

static CUresult push_locked(CUstream stream, const struct sg_op *op, uint64_t *sequence, struct sg_stamp *stamp) {
    CUcontext context = stream->context;
    uint32_t channel = stream->channel;
    struct sg_queue *queue = &context->queue[channel];
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    CUresult result = wait_for_room(context, channel, tail);
    if (result != CUDA_SUCCESS)
        return result;
    if (tail >= SG_RING)
        save_stamp(context, channel, tail - SG_RING);
    if (stamp)
        keep_stamp(queue, tail, stamp);
    struct sg_op *into = entry(context, channel, tail);
    memcpy(into, op, sizeof *into);
    into->flags |= stream->legacy ? SG_OP_LEGACY : 0;
    into->flags |= stream->flags & 1u ? 0 : SG_OP_BLOCKING;
    into->priority = stream->priority;
    into->order = atomic_fetch_add_explicit(&context->order, 1, memory_order_relaxed);
    into->submit_ns = sg_now();
    *sequence = tail;
    atomic_store_explicit(&queue->tail, tail + 1, memory_order_relaxed);
    atomic_store_explicit(&stream->last, tail + 1, memory_order_release);
    atomic_store_explicit(sg_tail_at(&sg_client.map, context->index, channel), tail + 1, memory_order_release);
    return CUDA_SUCCESS;
}

CUresult sg_push(CUstream stream, const struct sg_op *op, uint64_t *sequence, struct sg_stamp *stamp) {
    struct sg_queue *queue = &stream->context->queue[stream->channel];
    uint64_t unused;
    sg_lock(&queue->lock);
    CUresult result = sg_usable(stream->context);
    if (result == CUDA_SUCCESS)
        result = push_locked(stream, op, sequence ? sequence : &unused, stamp);
    sg_unlock(&queue->lock);
    /* a partner of another process may be waiting for this; plain work only makes others later, never earlier */
    if (result == CUDA_SUCCESS && (op->kind == SG_TOGETHER || op->kind == SG_HOST))
        sg_tell_change();
    return result;
}

CUresult sg_wait_stream(CUstream stream) {
    uint64_t last = atomic_load(&stream->last);
    if (last == 0)
        return sg_usable(stream->context);
    return sg_wait_for(stream->context, stream->channel, last - 1);
}

CUresult sg_wait_context(CUcontext context) {
    CUresult result = sg_usable(context);
    for (uint32_t channel = 0; channel < SG_CHANNELS && result == CUDA_SUCCESS; channel++) {
        uint64_t tail = atomic_load(&context->queue[channel].tail);
        if (tail)
            result = sg_wait_for(context, channel, tail - 1);
    }
    return result;
}

uint64_t sg_read_stamp(CUcontext context, uint32_t channel, uint64_t sequence, struct sg_stamp *stamp) {
    struct sg_queue *queue = &context->queue[channel];
    uint64_t ended = atomic_load(&stamp->ended_ns);
    if (ended || !sg_has_ended(context, channel, sequence))
        return ended;
    sg_lock(&queue->lock);
    ended = atomic_load(&stamp->ended_ns);
    if (!ended && atomic_load(&queue->tail) - sequence <= SG_RING) {
        ended = atomic_load(&entry(context, channel, sequence)->done_ns);
        atomic_store(&stamp->ended_ns, ended);
    }
    sg_unlock(&queue->lock);
    return ended;
}
