/* Memory pools.
 *
 * The rule: freed memory stays with its pool up to the release threshold. The next allocation takes it from this reserve. */
#ifndef SIMGPU_POOLS_H
#define SIMGPU_POOLS_H

#include "blocks.h"

struct CUmemPoolHandle_st {
    struct sg_handle handle;
    uint32_t device;
    bool is_default, is_imported;
    unsigned handle_types; /* how it may be exported */
    uint64_t token;        /* of its export; 0: never exported */
    int descriptor;
    int reuse[4]; /* by attribute: follow event dependencies, opportunistic, internal dependencies */
    uint64_t threshold, reserve, used, most_reserved, most_used, maximum;
    CUcontext context; /* the context that is charged with the reserve */
};

CUmemoryPool sg_new_pool(uint32_t device);
void sg_destroy_pool(CUmemoryPool pool);
CUmemoryPool sg_default_pool(uint32_t device);
CUmemoryPool sg_current_pool(uint32_t device);
void sg_set_current_pool(CUmemoryPool pool);
/* Gives the part of the reserve above `keep` back to the device. */
void sg_trim_pool(CUmemoryPool pool, uint64_t keep);

CUresult sg_pool_take(CUmemoryPool pool, CUcontext context, uint64_t bytes, CUdeviceptr *pointer);
CUresult sg_pool_give_back(CUdeviceptr pointer);
/* Takes a block out of its pool because its context ends. The pool is not charged for it any more. */
void sg_pool_lose(const struct sg_block *block);

#endif
