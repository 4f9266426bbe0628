/* The locks themselves, and what a debug build checks. */
#define _GNU_SOURCE
#include "process/lock_order.h"

#include <stdlib.h>
#include <unistd.h>

#include "process/log.h"

#define PLAIN PTHREAD_MUTEX_INITIALIZER
#define ADAPTIVE PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#define LOCK_MADE(name, kind) {kind},
struct ordered_lock ordered_locks[LOCK_COUNT] = {LOCKS_IN_ORDER(LOCK_MADE)};

#ifdef NVSHARE_DEBUG
#define LOCK_TEXT(name, kind) #name,
static const char *const names[] = {LOCKS_IN_ORDER(LOCK_TEXT)};
static __thread unsigned held; /* a bit for each lock that this thread holds */

static int last_of(unsigned locks) { return 31 - __builtin_clz(locks); }

void lock_check_take(enum lock lock) {
    if (held >> lock) {
        say("lock order: %s is taken while %s is held; process/lock_order.h has the order", names[lock], names[last_of(held)]);
        abort();
    }
    held |= 1U << lock;
}

/* Another lock would stay held for as long as the wait lasts. */
void lock_check_wait(enum lock lock) {
    unsigned others = held & ~(1U << lock);
    if (others) {
        say("lock order: waiting with %s while %s is held; nothing else may be held then", names[lock], names[last_of(others)]);
        abort();
    }
}

void lock_note_released(enum lock lock) { held &= ~(1U << lock); }

static void note_taken(enum lock lock) { held |= 1U << lock; }

static void note_none_held(void) { held = 0; }
#else
static void note_taken(enum lock lock) { (void)lock; }

static void note_none_held(void) {}
#endif

/* Checks no order: what is only tried for a while cannot wait for ever. */
bool lock_take_at_exit(enum lock lock) {
    for (int i = 0; i < 100; i++) {
        if (!pthread_mutex_trylock(&ordered_locks[lock].mutex)) {
            note_taken(lock);
            return true;
        }
        usleep(1000);
    }
    return false;
}

void locks_after_fork(void) {
    for (int lock = 0; lock < LOCK_COUNT; lock++)
        pthread_mutex_init(&ordered_locks[lock].mutex, NULL);
    note_none_held();
}
