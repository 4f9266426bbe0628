/* The frame around each call that puts work on a GPU.  Its fast path takes no lock and asks no other thread. */
#ifndef NVSHARE_LAUNCH_H
#define NVSHARE_LAUNCH_H

#include "flight/capture.h"
#include "gate/gate.h"
#include "gate/thread_slots.h"
#include "turns/turns.h"

struct slot *launch_begin_slowly(CUstream stream, const struct key *key);
void launch_mark_at_once(struct slot *slot);
struct slot *launch_slot(void); /* the slot of this thread, created when needed; NULL when there is no memory for one */

/* For one launch into the streams of several GPUs: it has a turn on all of them at the same time, and is in flight on each.
 * launch_end_together is called with the result, even if that is NULL. */
struct slot *launch_begin_together(const CUstream *streams, unsigned count);
void launch_end_together(struct slot *slot, const CUstream *streams, unsigned count);

/* The record of this kind of work, if this thread has it at hand; else NULL. */
INLINE struct measured *recently_measured(struct slot *slot, const struct key *key) {
    struct recent *recent = slot->last;
    if (LIKELY(same_key(&recent->key, key)))
        return recent->measured;
    recent = &slot->recent[key_hash(key) % RECENT];
    if (!same_key(&recent->key, key))
        return NULL;
    slot->last = recent;
    return recent->measured;
}

/* The thread's segment for the stream: the one it used last, or another; NULL when none serves. */
INLINE struct segment *segment_at_hand(struct slot *slot, CUstream stream) {
    if (LIKELY(segment_serves(slot->current, stream)))
        return slot->current;
    for (struct segment *segment = slot->segments; segment < slot->segments + SEGMENTS; segment++)
        if (segment->handle == stream && segment_serves(segment, stream))
            return slot->current = segment;
    return NULL;
}

/* The launch is not to be made: the scheduler has refused this process. */
#define IS_REFUSED(slot) (UNLIKELY((slot) == NULL) && UNLIKELY(turns_are_refused()))

/* Called before the driver's function.  launch_end is called after it, with the result of this. */
INLINE struct slot *launch_begin(CUstream stream, const struct key *key) {
    struct slot *slot = own_slot;
    if (LIKELY(slot != NULL) && LIKELY(!atomic_load_explicit(&slot->in, memory_order_relaxed))) {
        struct measured *measured = recently_measured(slot, key);
        struct segment *segment = measured ? segment_at_hand(slot, stream) : NULL;
        if (LIKELY(segment != NULL) && LIKELY(gate_try(slot, segment, measured)))
            return slot;
    }
    return launch_begin_slowly(stream, key);
}

/* A launch gets its event at once if it is timed; and while a capture is open, since its stream may join the capture next, and
 * no event can be recorded then.  Only the slow path decides that, and while a capture is open there is no other. */
INLINE void launch_end(struct slot *slot) {
    if (UNLIKELY(slot == NULL))
        return;
    if (UNLIKELY(slot->marks_at_once))
        launch_mark_at_once(slot);
    slot_clear_in(slot);
}

#endif
