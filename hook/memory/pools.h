/* The driver's memory pools: which GPU each is on, and what it keeps of what was freed. */
#ifndef NVSHARE_POOLS_H
#define NVSHARE_POOLS_H

#include "memory/memory.h"

/* As memory_claim; before it refuses, pools let go of what they keep. */
CUresult pools_claim(int gpu, enum memory_kind kind, uint64_t bytes);
/* What the GPU's pools keep is counted anew: after each call that may have changed it. */
void pools_settle(int gpu);
/* The same without telling the daemon; true when it should be told. */
bool pools_look(int gpu);
void pools_forget_ended(void); /* contexts have ended: their handles may be void */
void pools_after_fork(void);

#endif
