/* Cancellation of threads: NOT_CANCELLED holds it off until the end of the block.
 *
 * The rule: each function that may wait or write uses it.  A thread of the application that is cancelled inside the hook
 * would never release the locks that it holds. */
#ifndef NVSHARE_CANCEL_H
#define NVSHARE_CANCEL_H

#include <pthread.h>

static inline int cancel_hold_off(void) {
    int before = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void cancel_allow_again(const int *before) { pthread_setcancelstate(*before, NULL); }

#define NOT_CANCELLED                                                                                                   \
    __attribute__((cleanup(cancel_allow_again), unused)) const int cancel_before = cancel_hold_off()

#endif
