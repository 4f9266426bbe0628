/* Around each call that puts work on a GPU: the fast path of it, which asks nobody. */
#ifndef NVSHARE_LAUNCH_H
#define NVSHARE_LAUNCH_H

#include "flight/capture.h"
#include "gate/gate.h"
#include "gate/thread_slots.h"

struct slot *launch_begin_slowly(CUstream stream, const struct key *key);
void launch_mark_at_once(struct slot *slot);
struct slot *launch_slot(void); /* this thread's, made when new; NULL when there is no memory for one */

/* What is known of this kind of work without asking anybody, or NULL. */
INLINE struct measured *recently_measured(struct slot *slot, const struct key *key) {
    struct measured *measured = slot->last;
    if (LIKELY(same_key(&measured->key, key)))
        return measured;
    measured = slot->recent[key_hash(key) % RECENT];
    if (!same_key(&measured->key, key))
        return NULL;
    return slot->last = measured;
}

/* To be called before the driver's function, launch_end after it, with what this returned. */
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

/* While a capture is open, what was launched gets its event now: its stream may join the capture next, and then none may. */
INLINE void launch_end(struct slot *slot) {
    if (UNLIKELY(slot == NULL))
        return;
    if (UNLIKELY(atomic_load_explicit(&open_captures, memory_order_relaxed)))
        launch_mark_at_once(slot);
    slot_clear_in(slot);
}

#endif
