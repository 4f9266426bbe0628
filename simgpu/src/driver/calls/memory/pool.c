/* The entry points of stream-ordered allocation and of its pools. */
#include <stdlib.h>
#include <string.h>

#include "driver/allocations/pools.h"
#include "driver/base/thread.h"
#include "driver/graphs/capture.h"
#include "driver/work/work.h"

enum attribute {
    REUSE_FOLLOW_EVENTS = 1,
    REUSE_OPPORTUNISTIC = 2,
    REUSE_INTERNAL = 3,
    RELEASE_THRESHOLD = 4,
    RESERVED_NOW = 5,
    RESERVED_MOST = 6,
    USED_NOW = 7,
    USED_MOST = 8,
};

/* ---- allocation in the order of a stream */

static CUresult allocate(CUdeviceptr *pointer, uint64_t bytes, CUmemoryPool given, CUstream on) {
    CUstream stream;
    NEED_INIT();
    CUresult result = sg_stream(on, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pointer || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUmemoryPool pool = given ? given : sg_current_pool(stream->context->device);
    if (!sg_is_capturing(stream)) {
        result = sg_may_use(stream);
        return result == CUDA_SUCCESS ? sg_pool_take(pool, stream->context, bytes, pointer) : result;
    }
    struct sg_block *block = sg_add_block(SG_POOLED, stream->context, bytes, 0);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->of_graph = true;
    *pointer = block->start;
    return sg_submit(stream, &(struct sg_work){.type = SG_NODE_ALLOC, .memory = {block->start, bytes, pool, false}});
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
    return allocate(pointer, bytes, NULL, stream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
    if (!sg_is(pool, SG_POOL_HANDLE) || pool->is_imported)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(pointer, bytes, pool, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream given) {
    CUstream stream;
    NEED_INIT();
    CUresult result = sg_stream(given, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    const struct sg_block *block = sg_find_block(pointer);
    if (!block || block->start != pointer || block->kind == SG_RESERVED || block->kind == SG_PINNED ||
        (block->kind == SG_IMPORTED && !block->pool))
        return CUDA_ERROR_INVALID_VALUE;
    return sg_submit(stream, &(struct sg_work){.type = SG_NODE_FREE, .memory = {.pointer = pointer}});
}

/* ---- pools */

#define PINNED_TYPE 1u
#define DEVICE_LOCATION 1u
#define DESCRIPTOR_TYPE 1u

static CUresult find_device(CUdevice device, const void *out) {
    NEED_INIT();
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    return device >= 0 && (uint32_t)device < sg_visible_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    CUresult result = find_device(device, pool);
    if (result == CUDA_SUCCESS)
        *pool = sg_default_pool(sg_visible[device]);
    return result;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
    CUresult result = find_device(device, pool);
    if (result == CUDA_SUCCESS)
        *pool = sg_current_pool(sg_visible[device]);
    return result;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    CUresult result = find_device(device, pool);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sg_is(pool, SG_POOL_HANDLE) || pool->device != sg_visible[device] || pool->is_imported)
        return CUDA_ERROR_INVALID_VALUE;
    sg_set_current_pool(pool);
    return CUDA_SUCCESS;
}

static CUresult find_location(const CUmemLocation *location, CUmemAllocationType type) {
    if (!location || type != PINNED_TYPE)
        return location ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    return location->type == DEVICE_LOCATION ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
    CUresult result = find_location(location, type);
    return result == CUDA_SUCCESS ? cuDeviceGetDefaultMemPool(pool, location->id) : result;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
    CUresult result = find_location(location, type);
    return result == CUDA_SUCCESS ? cuDeviceGetMemPool(pool, location->id) : result;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
    CUresult result = find_location(location, type);
    return result == CUDA_SUCCESS ? cuDeviceSetMemPool(location->id, pool) : result;
}

CUresult cuMemPoolCreate(CUmemoryPool *made, const CUmemPoolProps *props) {
    if (!made || !props)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find_location(&props->location, props->allocType);
    if (result == CUDA_SUCCESS)
        result = find_device(props->location.id, made);
    if (result != CUDA_SUCCESS)
        return result;
    if (props->handleTypes & ~DESCRIPTOR_TYPE)
        return CUDA_ERROR_NOT_SUPPORTED;
    *made = sg_new_pool(sg_visible[props->location.id]);
    if (!*made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*made)->maximum = props->maxSize;
    (*made)->handle_types = props->handleTypes;
    return CUDA_SUCCESS;
}

static CUresult check(CUmemoryPool pool, const void *out) {
    NEED_INIT();
    return sg_is(pool, SG_POOL_HANDLE) && out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    CUresult result = check(pool, pool);
    if (result != CUDA_SUCCESS || pool->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    sg_destroy_pool(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    CUresult result = check(pool, pool);
    if (result == CUDA_SUCCESS)
        sg_trim_pool(pool, keep);
    return result;
}

static uint64_t *counter(CUmemoryPool pool, enum attribute attribute) {
    switch (attribute) {
    case RELEASE_THRESHOLD: return &pool->threshold;
    case RESERVED_MOST: return &pool->most_reserved;
    case USED_NOW: return &pool->used;
    case USED_MOST: return &pool->most_used;
    default: return NULL;
    }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    CUresult result = check(pool, value);
    if (result != CUDA_SUCCESS)
        return result;
    if (attribute >= REUSE_FOLLOW_EVENTS && attribute <= REUSE_INTERNAL) {
        memcpy(value, &pool->reuse[attribute], sizeof(int));
        return CUDA_SUCCESS;
    }
    const uint64_t reserved = pool->used + pool->reserve;
    const uint64_t *from = attribute == RESERVED_NOW ? &reserved : counter(pool, attribute);
    if (!from)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(value, from, sizeof *from);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
    CUresult result = check(pool, value);
    if (result != CUDA_SUCCESS)
        return result;
    if (attribute >= REUSE_FOLLOW_EVENTS && attribute <= REUSE_INTERNAL) {
        memcpy(&pool->reuse[attribute], value, sizeof(int));
        return CUDA_SUCCESS;
    }
    uint64_t given;
    memcpy(&given, value, sizeof given);
    uint64_t *into = counter(pool, attribute);
    if (!into || attribute == USED_NOW || (attribute != RELEASE_THRESHOLD && given != 0))
        return CUDA_ERROR_INVALID_VALUE; /* the high marks can only be reset */
    *into = given;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count) {
    CUresult result = check(pool, access);
    return result == CUDA_SUCCESS && count == 0 ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location) {
    CUresult result = check(pool, flags);
    if (result == CUDA_SUCCESS && location)
        *flags = 3; /* read and write */
    return result;
}

CUresult cuDeviceGraphMemTrim(CUdevice device) {
    return find_device(device, &device);
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value) {
    CUresult result = find_device(device, value);
    if (result == CUDA_SUCCESS && attribute > 3)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        memset(value, 0, sizeof(cuuint64_t));
    return result;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value) {
    CUresult result = find_device(device, value);
    return result == CUDA_SUCCESS && attribute > 3 ? CUDA_ERROR_INVALID_VALUE : result;
}
