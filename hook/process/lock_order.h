/* The hook's locks, and the order in which a thread may take them.
 *
 * The rule: a thread that holds a lock takes only locks further down in LOCKS_IN_ORDER, so no two threads wait for each
 * other.  Built with -DNVSHARE_DEBUG, a lock taken against the order ends the process with a message that names both;
 * otherwise nothing is checked, and a lock costs what its mutex costs.
 * The flag in driver/lookup.c is no lock of the list: nothing is asked while it is set. */
#ifndef NVSHARE_LOCK_ORDER_H
#define NVSHARE_LOCK_ORDER_H

#include <pthread.h>
#include <stdbool.h>

#define LOCKS_IN_ORDER(LOCK)                                                                                            \
    LOCK(LISTENER_START, PLAIN) /* one thread is started a process; taken with no other lock held */                    \
    LOCK(TURNS, ADAPTIVE)       /* the turns and the connection; a turn is drained and counted under it */              \
    LOCK(FLIGHT, PLAIN)         /* markers, streams, captures, events; the driver is called, contexts end under it */   \
    LOCK(POOLS, PLAIN)          /* the driver's memory pools: none is destroyed while it is asked what it keeps */      \
    LOCK(MEMORY, PLAIN)         /* the bytes counted, the ledger and the allocations */                                 \
    LOCK(MEASURED, PLAIN)       /* what is learned of each kind of work */

#define LOCK_NAME(name, kind) LOCK_##name,
enum lock { LOCKS_IN_ORDER(LOCK_NAME) LOCK_COUNT };
#undef LOCK_NAME

struct ordered_lock {
    pthread_mutex_t mutex;
} __attribute__((aligned(64))); /* a line each: threads that take different ones do not slow each other */
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

/* Waits for the condition with the lock, the only one held, let go meanwhile. */
static inline void lock_wait(enum lock lock, pthread_cond_t *condition) {
    lock_check_wait(lock);
    pthread_cond_wait(condition, &ordered_locks[lock].mutex);
}

/* A handler of a signal may call exit while its own thread holds the lock: tried for a moment; false: not got, go on. */
bool lock_take_at_exit(enum lock lock);
/* In a forked child, where only the thread that forked is left: all are free. */
void locks_after_fork(void);

#endif
