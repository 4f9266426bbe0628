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

/* The record of this kind of work, if this thread has it at hand; else NULL. */
INLINE struct measured *recently_measured(struct slot *slot, const struct key *key) {
    struct measured *measured = slot->last;
    if (LIKELY(same_key(&measured->key, key)))
        return measured;
    measured = slot->recent[key_hash(key) % RECENT];
    if (!same_key(&measured->key, key))
        return NULL;
    return slot->last = measured;
}

/* The launch is not to be made: the scheduler has refused this process. */
#define IS_REFUSED(slot) (UNLIKELY((slot) == NULL) && UNLIKELY(turns_are_refused()))

/* Called before the driver's function.  launch_end is called after it, with the result of this. */
INLINE struct slot *launch_begin(CUstream stream, const struct key *key) {
    struct slot *slot = own_slot;
    if (LIKELY(slot != NULL) && LIKELY(!atomic_load_explicit(&slot->in, memory_order_relaxed))) {
        struct segment *segment = slot->current;
        struct measured *measured = recently_measured(slot, key);
        if (LIKELY(measured != NULL) && LIKELY(segment_serves(segment, stream)) && LIKELY(gate_try(slot, segment, measured)))
            return slot;
    }
    return launch_begin_slowly(stream, key);
}

/* While a capture is open, launched work gets its event now: its stream may join the capture next, and no event can be
 * recorded then. */
INLINE void launch_end(struct slot *slot) {
    if (UNLIKELY(slot == NULL))
        return;
    if (UNLIKELY(atomic_load_explicit(&open_captures, memory_order_relaxed)))
        launch_mark_at_once(slot);
    slot_clear_in(slot);
}

#endif
