/* Pools between processes: the pool goes as a descriptor, each allocation of it as 64 bytes.
 *
 * The rule of cuda.h: only a pool that was made with a handle type can be exported, and an imported pool makes no new
 * allocations.  The memory stays charged to its owner.
 */
#include <string.h>
#include <unistd.h>

#include "driver/allocations/exports.h"
#include "driver/allocations/pools.h"
#include "driver/base/thread.h"
#include "driver/graphs/capture.h"

#define DESCRIPTOR_TYPE 1u

static CUresult check(CUmemoryPool pool, const void *out, CUmemAllocationHandleType type, unsigned long long flags) {
    NEED_INIT();
    if (!sg_is(pool, SG_POOL_HANDLE) || !out || flags || type != DESCRIPTOR_TYPE)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool, CUmemAllocationHandleType type,
                                          unsigned long long flags) {
    struct sg_export made;
    CUresult result = check(pool, out, type, flags);
    if (result != CUDA_SUCCESS)
        return result;
    if (!(pool->handle_types & type) || pool->is_imported)
        return CUDA_ERROR_INVALID_VALUE;
    if (!pool->token) {
        if (!sg_make_export(SG_EXPORT_POOL, pool->device, SG_PAGE, &made))
            return CUDA_ERROR_OUT_OF_MEMORY;
        pool->token = made.token;
        pool->descriptor = made.descriptor;
    }
    int descriptor = dup(pool->descriptor);
    if (descriptor < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(out, &descriptor, sizeof descriptor);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *made, void *handle, CUmemAllocationHandleType type,
                                            unsigned long long flags) {
    NEED_INIT();
    struct sg_export found;
    if (!made || flags || type != DESCRIPTOR_TYPE ||
        !sg_describe_export((int)(intptr_t)handle, SG_EXPORT_POOL, &found))
        return CUDA_ERROR_INVALID_VALUE;
    CUmemoryPool pool = sg_new_pool(found.card);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->token = found.token;
    pool->is_imported = true;
    pool->descriptor = -1;
    *made = pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer) {
    NEED_INIT();
    struct sg_block *block = sg_find_block(pointer);
    if (!data || !block || block->kind != SG_POOLED || block->start != pointer)
        return CUDA_ERROR_INVALID_VALUE;
    const CUmemoryPool pool = block->pool;
    if (!sg_is(pool, SG_POOL_HANDLE) || !pool->token)
        return CUDA_ERROR_INVALID_VALUE; /* cuda.h: "from an already shared memory pool" */
    const struct sg_export *exported = sg_export_block(block);
    if (!exported)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sg_export of_pool = *exported;
    of_pool.pool = pool->token;
    memset(data, 0, sizeof *data);
    memcpy(data->reserved, &of_pool, sizeof of_pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data) {
    CUcontext context;
    struct sg_export handle;
    CUresult result = sg_begin_unsafe(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pointer || !data || !sg_is(pool, SG_POOL_HANDLE))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&handle, data->reserved, sizeof handle);
    if (!pool->is_imported || handle.pool != pool->token)
        return CUDA_ERROR_INVALID_VALUE;
    struct sg_block *block = sg_import_block(&handle, context);
    if (!block)
        return CUDA_ERROR_INVALID_VALUE;
    block->pool = pool;
    *pointer = block->start;
    return CUDA_SUCCESS;
}
