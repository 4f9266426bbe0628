/* The gate: it decides whether this thread may put work on a GPU now.  wrappers/launch.h calls it around the driver's call.
 *
 * The rule: each thread owns a slot.  To launch: exchange(slot.in, gpu), then read the gate.  If it is closed: set slot.in
 * back to 0 and take the slow path.  If it is open: call the driver, then store 0 with release.  To yield: close the gate,
 * then read every slot.
 *
 * Why no launch slips through.  Launcher: W(in) then R(gate).  Yielder: W(gate) then R(in).  All four are sequentially
 * consistent, so they have one order that every thread agrees on.  If the launcher read the gate open, its R(gate) comes
 * before the yielder's W(gate), hence its W(in) before the yielder's R(in): the yielder sees the slot taken and waits for
 * the releasing store, which comes after the driver took the work; the events it then records come after that work.  If
 * the yielder read the slot as 0 before W(in), its W(gate) came first too and the launcher reads the gate closed.
 *
 * The traps.  With a plain store in place of the exchange the processor may delay W(in) past R(gate), and both sides go on.
 * That is too rare for any drill to show, hence this proof.  A slot that is let go before the driver's call is seen by
 * tests/drills/hook/drill_turns.py (NVSHARE_WEAKENED_GATE).  When the daemon closes the word of an overdue holder, it does
 * not wait for launches: it does so after the grace, and work that is in the call then counts as overdue.
 *
 * A launch reads and writes no other cache line that another thread writes. */
#ifndef NVSHARE_GATE_H
#define NVSHARE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/contexts.h"
#include "driver/driver.h"
#include "driver/lookup.h"
#include "gate/measured.h"
#include "nvshare_contract.h"

#define NO_TURN (UINT64_C(1) << 32) /* equals no word */
#define SEGMENTS 8
#define RECENT 16

/* A GPU of this container; its place in `gpus` never changes.  One cache line: every launch reads it, turns write it. */
struct gpu {
    const _Atomic uint32_t *_Atomic word; /* in the daemon's page: the counter of the container's turn, 0 when closed */
    _Atomic uint64_t allowed;             /* the turn in which this process may launch, or NO_TURN */
} __attribute__((aligned(64)));
extern struct gpu gpus[NVSHARE_SHARED_MEMORY_MOST_GPUS];

/* The work that one thread has put into one stream since the last event there, and how much more it may put there. */
struct segment {
    CUstream handle;
    CUcontext context;
    uint64_t generation;
    struct stream *stream;
    struct measured *only; /* NULL: of several kinds */
    CUevent began;         /* before its one launch, if that is timed */
    uint64_t granted_ns, credit_ns, opened_ns;
    bool is_open;          /* it has a grant */
    uint32_t launches_granted;
    _Atomic uint32_t launches_left; /* counted by its thread, read by the listener to see whether anything moves */
    int gpu;
};

/* A kind that the thread has had lately.  The table may give one record to several kinds, so the key stands here too. */
struct recent {
    struct key key;
    struct measured *measured;
};

struct slot {
    _Atomic uint32_t in; /* 0, or 1 + the GPU that this thread's driver call is for */
    uint64_t unpaused_until_ns; /* until then launches enter without a pause: the program measures their time */
    bool marks_at_once;  /* the launch that is under way gets an event as soon as the driver has taken it */
    atomic_bool taken;
    struct slot *next;
    struct segment *current __attribute__((aligned(128)));
    struct recent *last, recent[RECENT];
    struct segment segments[SEGMENTS];
    unsigned evict;
} __attribute__((aligned(128)));

extern _Atomic uint64_t generation; /* grows when a stream or context ends, or a capture begins: cached slots are void then */

/* A default stream belongs to the context that is current now: a cached copy of that context could be wrong. */
INLINE bool segment_serves(const struct segment *segment, CUstream stream) {
    if (UNLIKELY(segment->handle != stream) ||
        UNLIKELY(segment->generation != atomic_load_explicit(&generation, memory_order_acquire)))
        return false;
    if (!is_default_stream(stream))
        return true;
    CUcontext current = NULL;
    return driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == segment->context;
}

INLINE bool gate_is_open(int gpu) {
    const _Atomic uint32_t *word = atomic_load(&gpus[gpu].word);
    return atomic_load(&gpus[gpu].allowed) == atomic_load(word);
}

INLINE void slot_set_in(struct slot *slot, int gpu) { atomic_exchange(&slot->in, (uint32_t)gpu + 1); }

INLINE void slot_clear_in(struct slot *slot) { atomic_store_explicit(&slot->in, 0, memory_order_release); }

INLINE uint32_t segment_launched(const struct segment *segment) {
    return segment->launches_granted - atomic_load_explicit(&segment->launches_left, memory_order_relaxed);
}

/* Takes the piece of work from the segment's grant, inside the gate; false when the grant does not cover it. */
INLINE bool segment_take(struct segment *segment, struct measured *measured) {
    uint64_t expected = atomic_load_explicit(&measured->expected_ns, memory_order_relaxed);
    uint32_t left = atomic_load_explicit(&segment->launches_left, memory_order_relaxed);
    if (UNLIKELY(segment->credit_ns < expected) || UNLIKELY(!left))
        return false;
    segment->credit_ns -= expected;
    atomic_store_explicit(&segment->launches_left, left - 1, memory_order_relaxed);
    if (UNLIKELY(segment->only != measured))
        segment->only = segment_launched(segment) == 1 ? measured : NULL;
    return true;
}

INLINE bool gate_try(struct slot *slot, struct segment *segment, struct measured *measured) {
    slot_set_in(slot, segment->gpu);
    if (LIKELY(gate_is_open(segment->gpu)) && LIKELY(segment_take(segment, measured))) {
#ifdef NVSHARE_WEAKENED_GATE
        slot_clear_in(slot); /* the fault that the drill must find: the slot is let go before the driver is called */
#endif
        return true;
    }
    slot_clear_in(slot);
    return false;
}

#endif
