/* The driver's memory pools: which GPU each is on, and what it keeps of what was freed. */
#ifndef NVSHARE_POOLS_H
#define NVSHARE_POOLS_H

#include <stdbool.h>

#include "driver/driver.h"

void pools_note(CUmemoryPool handle, int gpu); /* the first word counts; negative: the host's, or another container's GPU */
void pools_drop(CUmemoryPool handle);
bool pools_find(CUmemoryPool handle, int *gpu); /* false: nobody has noted it, and `gpu` stays as it was */
/* What the GPU's pools keep is counted anew; true when the daemon should be told. */
bool pools_look(int gpu);
void pools_trim(int gpu);      /* they let go of what they keep, as the driver makes them when the card is full */
void pools_forget_ended(void); /* contexts have ended: their handles may be void */
void pools_after_fork(void);

#endif
