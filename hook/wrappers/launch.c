/* The slow path of a launch: everything that the fast path could not answer from the thread's own memory.
 *
 * The order is: captured work passes; find the GPU; wait for the turn; wait for room in flight; then through the gate like
 * anybody.  Whatever changed meanwhile is noticed there, and the thread starts over. */
#include "wrappers/launch.h"

#include <pthread.h>
#include <stdlib.h>

#include "driver/contexts.h"
#include "driver/devices.h"
#include "flight/capture.h"
#include "flight/flight.h"
#include "flight/streams.h"
#include "gate/thread_slots.h"
#include "memory/memory.h"
#include "process/cancel.h"
#include "process/lock_order.h"
#include "process/log.h"
#include "turns/turns.h"

static atomic_flag told_foreign = ATOMIC_FLAG_INIT;

static pthread_key_t ending;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void end_thread(void *argument) {
    struct slot *slot = argument;
    own_slot = NULL;
    flight_end_thread(slot);
    slot_give_back(slot);
}

static void make_key(void) { pthread_key_create(&ending, end_thread); }

struct slot *launch_slot(void) {
    if (own_slot)
        return own_slot;
    pthread_once(&once, make_key);
    struct slot *slot = slot_take();
    if (slot)
        pthread_setspecific(ending, slot);
    return slot;
}

/* What was learned of this kind of work, from the thread's own recent ones or the table. */
static struct measured *measured_for(struct slot *slot, const struct key *key) {
    struct recent *recent = &slot->recent[key_hash(key) % RECENT];
    if (same_key(&recent->key, key))
        return recent->measured;
    struct measured *kind = measured_of(key);
    if (kind)
        *recent = (struct recent){*key, kind};
    return kind;
}

/* A segment that can be used for another stream: a free one, else in turn. */
static struct segment *free_segment(struct slot *slot) {
    FOR_EACH_SEGMENT(slot, segment)
        if (!segment->stream)
            return segment;
    return &slot->segments[slot->evict++ % SEGMENTS];
}

static struct segment *known_segment(struct slot *slot, CUstream stream, CUcontext context) {
    FOR_EACH_SEGMENT(slot, segment)
        if (segment->stream && segment->handle == stream && segment->context == context && stream_is(segment->stream, stream, context))
            return segment;
    return NULL;
}

static struct segment *new_segment(struct slot *slot, CUstream stream, CUcontext context, int gpu) {
    struct segment *segment = free_segment(slot);
    memory_touch(gpu);
    lock_take(LOCK_FLIGHT);
    if (segment->stream)
        flight_close(segment);
    *segment = (struct segment){
        .handle = stream, .context = context, .gpu = gpu,
        .stream = stream_of(stream, context, gpu, stream == CU_STREAM_PER_THREAD ? slot : NULL)};
    lock_release(LOCK_FLIGHT);
    return segment->stream ? segment : NULL;
}

/* The thread's segment for the stream, made when new; NULL without a context, and for a GPU that is not ours. */
static struct segment *segment_for(struct slot *slot, CUstream stream) {
    uint64_t seen = atomic_load(&generation);
    CUcontext context;
    int gpu = locate(stream, &context);
    if (gpu < 0) {
        if (gpu == -1 && devices_count() && !atomic_flag_test_and_set(&told_foreign))
            say("work for a GPU that is not this container's: it is not scheduled");
        return NULL;
    }
    struct segment *segment = known_segment(slot, stream, context);
    if (!segment)
        segment = new_segment(slot, stream, context, gpu);
    if (segment)
        segment->generation = captures_are_open() ? 0 : seen;
    return segment;
}

/* Let through a shut gate for a partner's sake, the slot taken: room in flight, and no more looking at the gate. */
static struct slot *pass_alone(struct slot *slot, struct segment *segment, struct measured *measured) {
    while (!segment_take(segment, measured))
        flight_admit(slot, segment, measured);
    return slot;
}

void launch_mark_at_once(struct slot *slot) {
    NOT_CANCELLED;
    slot->marks_at_once = false;
    if (slot->current->stream)
        flight_mark_at_once(slot->current);
}

struct slot *launch_begin_slowly(CUstream stream, const struct key *key) {
    NOT_CANCELLED;
    struct slot *slot = launch_slot();
    if (!slot || atomic_load_explicit(&slot->in, memory_order_relaxed))
        return NULL; /* within another call of ours: that one holds the gate */
    for (;;) {
        if (!turns_ready() || capture_covers(stream))
            return NULL;
        struct segment *segment = segment_for(slot, stream);
        struct measured *measured = segment ? measured_for(slot, key) : NULL;
        if (!measured)
            return NULL;
        slot->current = segment;
        if (!turns_wait(segment->gpu, slot))
            return pass_alone(slot, segment, measured);
        if (gate_try(slot, segment, measured))
            return slot;
        if (flight_admit(slot, segment, measured) && gate_try(slot, segment, measured))
            return slot;
    }
}

/* ------------------------------------------------------------------------------------------------ several GPUs */

/* A partner may need this very launch while the gate of one GPU is shut (turns_wait): that gate counts as open. */
static bool try_together(struct slot *slot, const CUstream *streams, unsigned count) {
    uint64_t passed = 0;
    for (unsigned i = 0; i < count; i++) {
        struct segment *segment = segment_for(slot, streams[i]);
        if (segment && !turns_wait(segment->gpu, slot)) {
            passed |= UINT64_C(1) << segment->gpu;
            slot_clear_in(slot);
        }
    }
    atomic_exchange(&slot->in, ON_ALL);
    for (unsigned i = 0; i < count; i++) {
        struct segment *segment = segment_for(slot, streams[i]);
        if (segment && !(passed >> segment->gpu & 1) && !gate_is_open(segment->gpu))
            return false;
    }
    return true;
}

struct slot *launch_begin_together(const CUstream *streams, unsigned count) {
    NOT_CANCELLED;
    struct slot *slot = turns_ready() ? launch_slot() : NULL;
    if (!slot || atomic_load_explicit(&slot->in, memory_order_relaxed))
        return NULL;
    while (!try_together(slot, streams, count))
        slot_clear_in(slot);
    return slot;
}

void launch_end_together(struct slot *slot, const CUstream *streams, unsigned count) {
    NOT_CANCELLED;
    for (unsigned i = 0; slot && i < count; i++) {
        struct segment *segment = segment_for(slot, streams[i]);
        if (segment)
            flight_mark_launch(segment);
    }
    if (slot)
        slot_clear_in(slot);
}
