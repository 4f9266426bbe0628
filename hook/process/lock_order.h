/* The end of the process. */
#ifndef NVSHARE_LIFE_H
#define NVSHARE_LIFE_H

#include <pthread.h>
#include <stdbool.h>

/* A handler of a signal may call exit while its own thread holds the lock: tried for a moment; false: not got, go on. */
bool lock_at_the_end(pthread_mutex_t *lock);

#endif
