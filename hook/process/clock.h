/* The clock of all waits and measurements: nanoseconds, monotonic. */
#ifndef NVSHARE_CLOCK_H
#define NVSHARE_CLOCK_H

#include <stdint.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

uint64_t now_ns(void);

#endif
