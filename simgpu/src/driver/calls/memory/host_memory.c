/* Host memory that the device knows: allocated pinned, or registered. It takes none of the device's. */
#include <stdlib.h>

#include "driver/allocations/blocks.h"
#include "driver/base/init.h"
#include "driver/graphs/capture.h"

#define HOST_FLAGS 7u
#define REGISTER_FLAGS 15u

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
    CUcontext context;
    CUresult result = sg_begin_unsafe(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pointer || bytes == 0 || flags & ~HOST_FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    struct sg_block *block = sg_add_block(SG_PINNED, context, bytes, 0);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->flags = flags;
    *pointer = (void *)(uintptr_t)block->start;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) {
    return cuMemHostAlloc(pointer, bytes, 0);
}

static struct sg_block *exactly(const void *pointer, enum sg_block_kind kind) {
    struct sg_block *block = sg_find_block((uint64_t)(uintptr_t)pointer);
    return block && block->kind == kind && block->start == (uint64_t)(uintptr_t)pointer ? block : NULL;
}

CUresult cuMemFreeHost(void *pointer) {
    CUcontext context;
    CUresult result = sg_begin_unsafe(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct sg_block *block = exactly(pointer, SG_PINNED);
    if (!block)
        return CUDA_ERROR_INVALID_VALUE;
    sg_remove_block(block);
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned flags) {
    CUcontext context;
    CUresult result = sg_begin_unsafe(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pointer || bytes == 0 || flags & ~REGISTER_FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_find_block((uint64_t)(uintptr_t)pointer))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    struct sg_block *block = sg_enter_block(SG_REGISTERED, context, (uint64_t)(uintptr_t)pointer, bytes);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *pointer, size_t bytes, unsigned flags) {
    return cuMemHostRegister_v2(pointer, bytes, flags);
}

CUresult cuMemHostUnregister(void *pointer) {
    CUcontext context;
    CUresult result = sg_begin_unsafe(&context);
    if (result != CUDA_SUCCESS)
        return result;
    struct sg_block *block = exactly(pointer, SG_REGISTERED);
    if (!block)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    sg_remove_block(block);
    return CUDA_SUCCESS;
}

static const struct sg_block *host_block(const void *pointer) {
    const struct sg_block *block = sg_find_block((uint64_t)(uintptr_t)pointer);
    return block && (block->kind == SG_PINNED || block->kind == SG_REGISTERED) ? block : NULL;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *pointer, unsigned flags) {
    NEED_INIT();
    if (!device || flags || !host_block(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    *device = (uint64_t)(uintptr_t)pointer;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *pointer) {
    NEED_INIT();
    const struct sg_block *block = host_block(pointer);
    if (!flags || !block)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = block->flags;
    return CUDA_SUCCESS;
}
