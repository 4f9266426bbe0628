/* The memory pools of the driver: the GPU of each pool, and how much of the freed memory it keeps. */
#ifndef NVSHARE_POOLS_H
#define NVSHARE_POOLS_H

#include <stdbool.h>

#include "driver/driver.h"

void pools_note(CUmemoryPool handle, int gpu); /* the first note counts; negative: the host, or another container's GPU */
void pools_drop(CUmemoryPool handle);
bool pools_find(CUmemoryPool handle, int *gpu); /* false: it was not noted, and `gpu` stays as it was */
/* Counts again how much the pools of the GPU keep; true when the daemon must be told. */
bool pools_look(int gpu);
void pools_trim(int gpu);      /* makes them give back what they keep, as the driver does when the card is full */
void pools_forget_ended(void); /* contexts have ended: their handles may be void */
void pools_after_fork(void);

#endif
