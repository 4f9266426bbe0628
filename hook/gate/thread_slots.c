/* The slots of all threads: made at a thread's first launch, handed on when it ends, never freed.
 *
 * Knows threads and the fast path's memory; nothing of turns. */
#define _GNU_SOURCE
#include "gate/thread_slots.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__thread struct slot *own_slot;
struct slot *_Atomic all_slots;
static struct measured nothing_measured = {.expected_ns = UNKNOWN_NS};

static struct slot *take_free(void) {
    FOR_EACH_SLOT(slot) {
        bool free = false;
        if (atomic_compare_exchange_strong(&slot->taken, &free, true))
            return slot;
    }
    return NULL;
}

static struct slot *make_slot(void) {
    void *memory = NULL;
    if (posix_memalign(&memory, _Alignof(struct slot), sizeof(struct slot)))
        return NULL;
    struct slot *slot = memset(memory, 0, sizeof(struct slot));
    atomic_store(&slot->taken, true);
    for (int i = 0; i < RECENT; i++)
        slot->recent[i].measured = &nothing_measured;
    slot->last = slot->recent;
    slot->current = slot->segments;
    slot->next = atomic_load(&all_slots);
    while (!atomic_compare_exchange_weak(&all_slots, &slot->next, slot))
        ;
    return slot;
}

struct slot *slot_take(void) {
    struct slot *slot = take_free();
    return own_slot = slot ? slot : make_slot();
}

void slot_give_back(struct slot *slot) {
    atomic_store(&slot->in, 0);
    atomic_store(&slot->taken, false);
}

bool slots_clear(int gpu) {
    FOR_EACH_SLOT(slot) {
        uint32_t in = atomic_load(&slot->in);
        if (in == (uint32_t)gpu + 1 || in == ON_ALL)
            return false;
    }
    return true;
}

/* A thread that the scheduler took the processor from inside a driver's call is let out of it. */
bool slots_clear_soon(int gpu) {
    for (int i = 0; i < 20 && !slots_clear(gpu); i++)
        sched_yield();
    return slots_clear(gpu);
}

bool slots_clear_within(int gpu, unsigned milliseconds) {
    for (unsigned i = 0; i < milliseconds * 10; i++) {
        if (slots_clear(gpu))
            return true;
        usleep(100);
    }
    return slots_clear(gpu);
}

/* In the child only the thread that forked is left. */
void slots_after_fork(void) {
    FOR_EACH_SLOT(slot) {
        atomic_store(&slot->in, 0);
        if (slot != own_slot)
            atomic_store(&slot->taken, false);
    }
}
