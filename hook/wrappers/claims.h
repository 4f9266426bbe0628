/* What wrappers count: each byte before the driver is asked for it, and the daemon hears of it.
 *
 * The numbers are memory/'s, the daemon's word is turns/'; here the two meet. */
#ifndef NVSHARE_CLAIMS_H
#define NVSHARE_CLAIMS_H

#include <stdint.h>

#include "driver/driver.h"
#include "memory/allocations.h"

/* Counts bytes about to be allocated, and waits for the daemon's word where it must; before it refuses, pools let go of what
 * they keep.  CUDA_ERROR_OUT_OF_MEMORY and nothing counted when they would be too many. */
CUresult claims_make(int gpu, enum memory_kind kind, uint64_t bytes);
void claims_return(int gpu, enum memory_kind kind, uint64_t bytes);
/* An allocation was given back.  The GPU whose pools keep it, so that they are to be settled; else -1. */
int claims_forget(enum memory_space space, uint64_t name);
/* Changes the references of a handle; when none is left its bytes are returned. */
void claims_refer(uint64_t handle, int change);
/* What the GPU's pools keep is counted anew: after each call that may have changed it. */
void claims_settle_pools(int gpu);
void claims_end_graph(CUgraph graph);
void claims_end_contexts(void); /* after flight_after_end: forgets what belonged to contexts that are gone */

/* A driver may call its own exported functions, and so come back to us: what is inside one call is counted once. */
extern __thread int inside_driver;
#define INSIDE(call)                                                                                                    \
    ({                                                                                                                  \
        inside_driver++;                                                                                                \
        CUresult inside = (call);                                                                                       \
        inside_driver--;                                                                                                \
        inside;                                                                                                         \
    })

#endif
