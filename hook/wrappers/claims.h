/* Claims: the wrappers count each byte before they ask the driver for it, and tell the daemon.
 *
 * The rule: the numbers stand in memory/, the daemon's answers come from turns/.  Here the two meet. */
#ifndef NVSHARE_CLAIMS_H
#define NVSHARE_CLAIMS_H

#include <stdint.h>

#include "driver/driver.h"
#include "memory/allocations.h"

/* Counts bytes that are about to be allocated, and waits for the daemon's answer if it must.  Before it refuses, pools give
 * back what they keep.  Returns CUDA_ERROR_OUT_OF_MEMORY and counts nothing when the bytes would be too many. */
CUresult claims_make(int gpu, enum memory_kind kind, uint64_t bytes);
void claims_return(int gpu, enum memory_kind kind, uint64_t bytes);
/* Forgets an allocation that was given back.  Returns the GPU whose pools keep it and must be settled; else -1. */
int claims_forget(enum memory_space space, uint64_t name);
/* Changes the references of a handle; when none is left, its bytes are not counted any more. */
void claims_refer(uint64_t handle, int change);
/* Counts again how much the pools of the GPU keep; called after each call that may have changed it. */
void claims_settle_pools(int gpu);
void claims_end_graph(CUgraph graph);
void claims_end_contexts(void); /* after flight_after_end: forgets the memory of contexts that are gone */

/* The answer to a call that is not counted: the driver's, but an error for a process that the scheduler has refused. */
#define UNCOUNTED(call) (UNLIKELY(turns_are_refused()) ? CUDA_ERROR_NOT_PERMITTED : (call))

/* A driver may call its own exported functions, which are wrapped too.  The memory inside one call is counted once. */
extern __thread int inside_driver;
#define INSIDE(call)                                                                                                    \
    ({                                                                                                                  \
        inside_driver++;                                                                                                \
        CUresult inside = (call);                                                                                       \
        inside_driver--;                                                                                                \
        inside;                                                                                                         \
    })

#endif
