/* The locks of a process, and the one order in which a thread may take them.
 *
 * The rule: a thread takes a lock only if its rank is above the ranks of all locks that it holds.  Only the queues of one
 * context have equal ranks; they are taken in the order of channels.  So no two threads ever wait for each other.  Builds
 * for debugging and with sanitizers (SIMGPU_LOCK_RANKS) check it and abort with a sentence.  In other builds the rank
 * costs nothing.
 *
 * Between processes there is one lock, the word in the shared file (transaction.c).  It is robust: if a process dies with
 * it, another process takes it over.  It is taken right after SG_RANK_TRANSACTION of its process and never without it, and
 * shares that rank.
 */
#ifndef SIMGPU_LOCKS_H
#define SIMGPU_LOCKS_H

#include <pthread.h>
#include <stdbool.h>

enum sg_rank {
    SG_RANK_INIT,        /* cuInit, nvmlInit */
    SG_RANK_ATTACH,      /* opening the shared file */
    SG_RANK_PRIMARIES,   /* the primary contexts: to create one, nearly all locks below are taken */
    SG_RANK_LIBRARIES,   /* the functions that libraries have loaded into contexts */
    SG_RANK_CAPTURES,    /* all captures, their graphs and their streams' frontiers */
    SG_RANK_FUNCTIONS,   /* the functions of modules */
    SG_RANK_MAPPINGS,    /* virtual memory management */
    SG_RANK_QUEUE,       /* one queue of a context: held while it waits for room */
    SG_RANK_BLOCKS,      /* the tree of address ranges */
    SG_RANK_POOLS,       /* the reserves of pools: they are charged to the device under it */
    SG_RANK_TRANSACTION, /* the state of all devices; then the file's own lock */
    SG_RANK_HOST_WORK,   /* pending host functions: a transaction reads them */
    SG_RANK_CONTEXTS,    /* the list of contexts; under this and the locks below no lock is taken */
    SG_RANK_STREAMS,     /* a context's list of streams */
    SG_RANK_HANDLES,     /* the pools of handles */
    SG_RANKS
};

struct sg_mutex {
    pthread_mutex_t mutex;
    enum sg_rank rank;
};

#define SG_MUTEX(of_rank)                                                                                              \
    { .mutex = PTHREAD_MUTEX_INITIALIZER, .rank = of_rank }

#ifdef SIMGPU_LOCK_RANKS
void sg_check_rank(enum sg_rank rank);
void sg_note_lock(enum sg_rank rank);
void sg_note_unlock(enum sg_rank rank);
#else
static inline void sg_check_rank(enum sg_rank rank) {
    (void)rank;
}
static inline void sg_note_lock(enum sg_rank rank) {
    (void)rank;
}
static inline void sg_note_unlock(enum sg_rank rank) {
    (void)rank;
}
#endif

static inline void sg_lock(struct sg_mutex *lock) {
    sg_check_rank(lock->rank);
    pthread_mutex_lock(&lock->mutex);
    sg_note_lock(lock->rank);
}

/* It never waits, so its rank does not matter. */
static inline bool sg_try_lock(struct sg_mutex *lock) {
    if (pthread_mutex_trylock(&lock->mutex) != 0)
        return false;
    sg_note_lock(lock->rank);
    return true;
}

static inline void sg_unlock(struct sg_mutex *lock) {
    sg_note_unlock(lock->rank);
    pthread_mutex_unlock(&lock->mutex);
}

#endif
