/* The locks of the hook, and the order in which a thread may take them.
 *
 * The rule: a thread that holds a lock takes only locks further down in LOCKS_IN_ORDER, so no two threads wait for each
 * other.  In a build with -DNVSHARE_DEBUG, a lock that is taken against the order ends the process, and a message names
 * both locks.  In other builds nothing is checked, and a lock costs as much as its mutex.
 * The flag in driver/lookup.c is not a lock of this list: no lock is taken while it is set. */
#ifndef NVSHARE_LOCK_ORDER_H
#define NVSHARE_LOCK_ORDER_H

#include <pthread.h>
#include <stdbool.h>

#define LOCKS_IN_ORDER(LOCK)                                                                                            \
    LOCK(LISTENER_START, PLAIN) /* for starting the one thread; taken with no other lock held */                    \
    LOCK(TURNS, ADAPTIVE)       /* the turns and the connection; a turn is drained and counted under it */              \
    LOCK(FLIGHT, PLAIN)         /* markers, streams, captures, events; the driver is called under it */                 \
    LOCK(POOLS, PLAIN)          /* the driver's memory pools: none is destroyed while its kept bytes are read */      \
    LOCK(MEMORY, PLAIN)         /* the bytes counted, the ledger and the allocations */                                 \
    LOCK(MEASURED, PLAIN)       /* the learned durations of each kind of work */

#define LOCK_NAME(name, kind) LOCK_##name,
enum lock { LOCKS_IN_ORDER(LOCK_NAME) LOCK_COUNT };
#undef LOCK_NAME

struct ordered_lock {
    pthread_mutex_t mutex;
} __attribute__((aligned(64))); /* a cache line each: threads with different locks do not slow each other */
extern struct ordered_lock ordered_locks[LOCK_COUNT];

#ifdef NVSHARE_DEBUG
void lock_check_take(enum lock lock);
void lock_check_wait(enum lock lock);
void lock_note_released(enum lock lock);
#else
static inline void lock_check_take(enum lock lock) { (void)lock; }
static inline void lock_check_wait(enum lock lock) { (void)lock; }
static inline void lock_note_released(enum lock lock) { (void)lock; }
#endif

static inline void lock_take(enum lock lock) {
    lock_check_take(lock);
    pthread_mutex_lock(&ordered_locks[lock].mutex);
}

static inline void lock_release(enum lock lock) {
    lock_note_released(lock);
    pthread_mutex_unlock(&ordered_locks[lock].mutex);
}

/* Waits for the condition; the lock is released meanwhile, and must be the only one that is held. */
static inline void lock_wait(enum lock lock, pthread_cond_t *condition) {
    lock_check_wait(lock);
    pthread_cond_wait(condition, &ordered_locks[lock].mutex);
}

/* Tries for a moment to take the lock; false: go on without it.  A signal handler may call exit while its own thread holds
 * the lock. */
bool lock_take_at_exit(enum lock lock);
/* Frees all locks in a forked child, where only the thread that forked is left. */
void locks_after_fork(void);

#endif
