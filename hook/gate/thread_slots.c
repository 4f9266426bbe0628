/* The slots of all threads: made at a thread's first launch, handed on when it ends, never freed.
 *
 * Knows threads and the fast path's memory; nothing of turns. */
#define _GNU_SOURCE
#include "gate/thread_slots.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "flight/flight.h"

__thread struct slot *own_slot;
_Atomic uint64_t generation = 1;
struct slot *_Atomic all_slots;
static pthread_key_t ending;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct measured nothing_measured = {.expected_ns = UNKNOWN_NS};

static void leave_slot(void *argument) {
    struct slot *slot = argument;
    own_slot = NULL;
    flight_end_thread(slot);
    atomic_store(&slot->in, 0);
    atomic_store(&slot->taken, false);
}

static void make_key(void) { pthread_key_create(&ending, leave_slot); }

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
        slot->recent[i] = &nothing_measured;
    slot->last = &nothing_measured;
    slot->current = slot->segments;
    slot->next = atomic_load(&all_slots);
    while (!atomic_compare_exchange_weak(&all_slots, &slot->next, slot))
        ;
    return slot;
}

struct slot *slot_of_this_thread(void) {
    if (own_slot)
        return own_slot;
    pthread_once(&once, make_key);
    struct slot *slot = take_free();
    if (!slot)
        slot = make_slot();
    if (slot)
        pthread_setspecific(ending, slot);
    own_slot = slot;
    return slot;
}

bool slots_clear(int gpu) {
    FOR_EACH_SLOT(slot)
        if (atomic_load(&slot->in) == (uint32_t)gpu + 1)
            return false;
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
