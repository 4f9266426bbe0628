/* Plain, managed and host memory: allocated, freed, asked about. */
#include <stdlib.h>
#include <string.h>

#include "driver/allocations/pools.h"
#include "driver/base/queue.h"
#include "driver/base/thread.h"
#include "driver/graphs/capture.h"
#include "shared/devices/paging.h"
#include "shared/process/transaction.h"

#define UNIT 512ull
#define ATTACH_GLOBAL 1u
#define ATTACH_HOST 2u

static CUresult allocate(enum sg_block_kind kind, CUdeviceptr *pointer, uint64_t bytes) {
    CUcontext context;
    CUresult result = sg_begin_unsafe(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pointer || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t charged = sg_round_up(bytes, UNIT);
    uint64_t touched = kind == SG_MANAGED ? sg_touched_part(&sg_client.settings, charged) : 0;
    result = kind == SG_MANAGED ? sg_charge_managed(context, touched) : sg_charge_plain(context, charged);
    if (result != CUDA_SUCCESS)
        return result;
    struct sg_block *block = sg_add_block(kind, context, bytes, 0);
    if (!block) {
        (kind == SG_MANAGED ? sg_refund_managed : sg_refund_plain)(context, kind == SG_MANAGED ? touched : charged);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->charged = charged;
    block->touched = touched;
    *pointer = block->start;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    return allocate(SG_PLAIN, pointer, bytes);
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags) {
    if (flags != ATTACH_GLOBAL && flags != ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(SG_MANAGED, pointer, bytes);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
    if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = sg_round_up(width, UNIT);
    return allocate(SG_PLAIN, pointer, *pitch * height);
}

/* What cuIpcOpenMemHandle gave is closed, not freed; what came from an imported pool is freed. */
static bool is_freeable(const struct sg_block *block) {
    return block->kind == SG_PLAIN || block->kind == SG_MANAGED || block->kind == SG_POOLED ||
           (block->kind == SG_IMPORTED && block->pool);
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
    CUcontext context;
    if (pointer == 0)
        return CUDA_SUCCESS;
    CUresult result = sg_begin_unsafe(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct sg_block *block = sg_find_block(pointer);
    if (!block || block->start != pointer || !is_freeable(block))
        return CUDA_ERROR_INVALID_VALUE;
    if (block->context)
        result = sg_wait_context(block->context); /* the driver waits for what may still use it */
    if (block->kind == SG_POOLED)
        return result == CUDA_SUCCESS ? sg_pool_give_back(pointer) : result;
    sg_remove_block(block);
    return result;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    NEED_INIT();
    CUcontext context;
    CUresult result = sg_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!free_bytes || !total)
        return CUDA_ERROR_INVALID_VALUE;
    struct sg_state state = sg_begin();
    double unused = sg_free_bytes(&state, context->device);
    sg_commit(&state);
    *total = sg_client.map.header->card[context->device].memory_bytes;
    *free_bytes = unused > 0 ? (size_t)(unused + 0.5) : 0;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
    NEED_INIT();
    const struct sg_block *block = sg_find_block(pointer);
    if (!block)
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = block->start;
    if (bytes)
        *bytes = block->bytes;
    return CUDA_SUCCESS;
}
