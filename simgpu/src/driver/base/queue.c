/* How work gets from a stream into the shared file, and how somebody waits for it.
 *
 * A submission writes one ring entry and moves the tail; it takes no lock that another process holds.  The entry's stamp
 * says when it was submitted; the devices' state is brought up to date by whoever looks next.
 */
#include <stdlib.h>
#include <string.h>

#include "objects.h"
#include "shared/devices/paging.h"
#include "shared/devices/record.h"
#include "shared/devices/timeline.h"
#include "shared/process/changes.h"
#include "shared/process/transaction.h"

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

static bool is_ours(const struct sg_state *state, CUcontext context) {
    return sg_in_use(state->core, context->index) && state->context[context->index].serial == context->serial;
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
    if (!is_ours(&state, context)) {
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
    pthread_mutex_lock(&queue->lock);
    CUresult result = sg_usable(stream->context);
    if (result == CUDA_SUCCESS)
        result = push_locked(stream, op, sequence ? sequence : &unused, stamp);
    pthread_mutex_unlock(&queue->lock);
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
    pthread_mutex_lock(&queue->lock);
    ended = atomic_load(&stamp->ended_ns);
    if (!ended && atomic_load(&queue->tail) - sequence <= SG_RING) {
        ended = atomic_load(&entry(context, channel, sequence)->done_ns);
        atomic_store(&stamp->ended_ns, ended);
    }
    pthread_mutex_unlock(&queue->lock);
    return ended;
}

/* ---- contexts in the shared state */

static int find_free(const struct sg_core *core) {
    for (int i = 0; i < SG_CONTEXTS; i++)
        if (!sg_in_use(core, (uint32_t)i))
            return i;
    return -1;
}

static void fill_context(struct sg_state *state, uint32_t index, CUcontext context) {
    struct sg_context *fresh = &state->context[index];
    memset(fresh, 0, sizeof *fresh);
    fresh->serial = state->core->next_serial++;
    fresh->owner = sg_client.map.owner;
    fresh->device = context->device;
    fresh->channels = 1;
    fresh->checked_ns = state->core->now_ns;
    for (uint32_t channel = 0; channel < SG_CHANNELS; channel++)
        atomic_store(sg_tail_at(state->map, index, channel), 0);
    state->core->used[index / 64] |= 1ull << (index % 64);
    context->index = index;
    context->serial = fresh->serial;
    sg_record_birth(state, index);
}

CUresult sg_add_context(CUcontext context) {
    struct sg_state state = sg_begin();
    int index = find_free(state.core);
    bool fits = index >= 0 &&
                sg_reserve_unpageable(&state, context->device, (double)state.map->header->physics.overhead_bytes);
    if (fits)
        fill_context(&state, (uint32_t)index, context);
    sg_commit(&state);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void remove_and_commit(struct sg_state *state, CUcontext context) {
    if (is_ours(state, context))
        sg_drop_context(state, context->index);
    sg_commit(state);
    sg_tell_change();
}

void sg_remove_context(CUcontext context) {
    struct sg_state state = sg_begin();
    remove_and_commit(&state, context);
}

bool sg_remove_context_at_exit(CUcontext context) {
    struct sg_state state;
    if (!sg_begin_at_exit(&state))
        return false;
    remove_and_commit(&state, context);
    return true;
}

CUresult sg_use_channel(CUcontext context, uint32_t channel) {
    struct sg_state state = sg_begin();
    struct sg_context *shared = &state.context[context->index];
    bool ours = is_ours(&state, context);
    if (ours && shared->channels <= channel) {
        memset(&shared->channel[shared->channels], 0, (channel + 1 - shared->channels) * sizeof shared->channel[0]);
        shared->channels = channel + 1;
    }
    sg_commit(&state);
    return ours ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
