/* Fork, and the end of the process.
 *
 * The hook does nothing when it is loaded: a program without CUDA never notices it.  fork's hooks are registered by
 * glibc's own entry, weak, since musl has none and pthread_atfork would have to be linked in. */
#define _GNU_SOURCE
#include <stddef.h>

#include "daemon/listener.h"
#include "driver/devices.h"
#include "driver/lookup.h"
#include "flight/flight.h"
#include "gate/gate.h"
#include "gate/thread_slots.h"
#include "memory/memory.h"
#include "memory/pools.h"
#include "process/lock_order.h"
#include "process/log.h"
#include "turns/turns.h"

extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library)
    __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

/* What these guard is whole in the child. The others' state is made anew there. */
static const enum lock held_over_fork[] = {LOCK_TURNS, LOCK_FLIGHT, LOCK_MEMORY, LOCK_MEASURED};
#define HELD_OVER_FORK (sizeof held_over_fork / sizeof *held_over_fork)

static void before_fork(void) {
    for (unsigned i = 0; i < HELD_OVER_FORK; i++)
        lock_take(held_over_fork[i]);
}

static void after_in_parent(void) {
    for (unsigned i = HELD_OVER_FORK; i-- > 0;)
        lock_release(held_over_fork[i]);
}

static void after_in_child(void) {
    locks_after_fork();
    lookup_after_fork();
    turns_after_fork();
    listener_after_fork();
    flight_forget_all();
    slots_after_fork();
    memory_after_fork();
    pools_after_fork();
    devices_forget();
}

__attribute__((constructor)) static void loaded(void) {
    if (__register_atfork)
        __register_atfork(before_fork, after_in_parent, after_in_child, &__dso_handle);
}

__attribute__((destructor)) static void unloaded(void) {
    if (!log_wants_summary())
        return;
    struct turns_totals totals = turns_totals();
    if (!totals.turns)
        return;
    say("gpu_seconds=%.3f waited_seconds=%.3f turns=%llu neighbours=%llu peak_bytes=%llu overruns=%llu",
        (double)totals.busy_ns / 1e9, (double)totals.waited_ns / 1e9, (unsigned long long)totals.turns,
        (unsigned long long)totals.neighbours, (unsigned long long)memory_peak(),
        (unsigned long long)flight_overruns());
}
