/* A thread of the application that is cancelled in here would take a lock of ours with it: what may wait or speak holds its
 * cancellation off until the end of the block. */
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
