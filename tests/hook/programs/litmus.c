/* The gate alone, without driver and daemon: two threads go through it as launches do, a third closes it as a yield does, waits
 * until their slots are clear, and is alone then.  Prints how often it was not.  litmus ROUNDS */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/thread_slots.h"

struct driver driver;
static _Atomic uint32_t word = 1;
static _Atomic int is_alone, is_over, ready;
static _Atomic long faults, passed;

static void *go_through(void *ignored) {
    struct measured measured;
    struct slot *slot = slot_take();
    memset(&measured, 0, sizeof measured);
    atomic_fetch_add(&ready, 1);
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        struct segment *segment = slot->current;
        segment->credit_ns = UINT64_MAX;
        atomic_store_explicit(&segment->launches_left, 2, memory_order_relaxed);
        if (!gate_try(slot, segment, &measured))
            continue;
        for (int i = 0; i < 8; i++)
            if (atomic_load_explicit(&is_alone, memory_order_relaxed))
                atomic_fetch_add_explicit(&faults, 1, memory_order_relaxed);
        slot_clear_in(slot);
        atomic_fetch_add_explicit(&passed, 1, memory_order_relaxed);
    }
    return ignored;
}

int main(int count, char **words) {
    pthread_t threads[2];
    atomic_store(&gpus[0].word, &word);
    atomic_store(&gpus[0].allowed, 1);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, go_through, NULL);
    while (atomic_load(&ready) < 2)
        ;
    for (long round = 0, rounds = count > 1 ? atol(words[1]) : 1000; round < rounds; round++) {
        long before = atomic_load(&passed);
        atomic_store(&gpus[0].allowed, NO_TURN);
        while (!slots_clear(0))
            ;
        atomic_store_explicit(&is_alone, 1, memory_order_relaxed);
        for (volatile int i = 0; i < 50; i++)
            ;
        atomic_store_explicit(&is_alone, 0, memory_order_relaxed);
        atomic_store(&gpus[0].allowed, 1);
        while (atomic_load_explicit(&passed, memory_order_relaxed) < before + 2)
            ;
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", atomic_load(&faults));
    return 0;
}
