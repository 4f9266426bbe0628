/* Managed memory beyond allocating it: prefetch, advice, discard, attach. */
#include <string.h>

#include "driver/allocations/blocks.h"
#include "driver/base/thread.h"
#include "driver/work/work.h"

#define HOST_DEVICE (-1)
#define DEVICE_LOCATION 1u
#define MOST_ADVICE 6u

static CUresult check_range(CUdeviceptr pointer, size_t bytes) {
    NEED_INIT();
    const struct sg_block *block = sg_find_block(pointer);
    if (!block || block->kind != SG_MANAGED || bytes == 0 || pointer - block->start + bytes > block->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult prefetch(CUdeviceptr pointer, size_t bytes, bool to_host, CUstream given) {
    CUstream stream;
    CUresult result = check_range(pointer, bytes);
    if (result == CUDA_SUCCESS)
        result = sg_stream(given, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    const struct sg_work work = {.type = SG_NODE_PREFETCH, .memory = {pointer, bytes, NULL, to_host}};
    return sg_submit(stream, &work);
}

CUresult cuMemPrefetchAsync(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream) {
    if (device != HOST_DEVICE && (device < 0 || (uint32_t)device >= sg_visible_count))
        return CUDA_ERROR_INVALID_DEVICE;
    return prefetch(pointer, bytes, device == HOST_DEVICE, stream);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned flags,
                               CUstream stream) {
    if (flags || location.type == 0)
        return CUDA_ERROR_INVALID_VALUE;
    return prefetch(pointer, bytes, location.type != DEVICE_LOCATION, stream);
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr *pointers, size_t *sizes, size_t count, CUmemLocation *locations,
                                 size_t *indices, size_t location_count, unsigned long long flags, CUstream stream) {
    if (!pointers || !sizes || !locations || !indices || !count || !location_count || location_count > count || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0, location = 0; i < count; i++) {
        while (location + 1 < location_count && indices[location + 1] <= i)
            location++;
        CUresult result = cuMemPrefetchAsync_v2(pointers[i], sizes[i], locations[location], 0, stream);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr *pointers, size_t *sizes, size_t count, unsigned long long flags,
                                CUstream given) {
    CUstream stream;
    if (!pointers || !sizes || count == 0 || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUresult result = check_range(pointers[i], sizes[i]);
        if (result == CUDA_SUCCESS)
            result = sg_stream(given, &stream);
        if (result != CUDA_SUCCESS)
            return result;
        sg_send_managed_out(stream->context, sizes[i]);
    }
    return CUDA_SUCCESS;
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *pointers, size_t *sizes, size_t count,
                                           CUmemLocation *locations, size_t *indices, size_t location_count,
                                           unsigned long long flags, CUstream stream) {
    CUresult result = cuMemDiscardBatchAsync(pointers, sizes, count, flags, stream);
    if (result != CUDA_SUCCESS)
        return result;
    return cuMemPrefetchBatchAsync(pointers, sizes, count, locations, indices, location_count, flags, stream);
}

/* Advice is accepted and changes nothing: the model has one policy, least recently touched. */
CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device) {
    CUresult result = check_range(pointer, bytes);
    if (result == CUDA_SUCCESS && (advice == 0 || advice > MOST_ADVICE))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && device != HOST_DEVICE && (device < 0 || (uint32_t)device >= sg_visible_count))
        result = CUDA_ERROR_INVALID_DEVICE;
    return result;
}

CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUmemLocation location) {
    return cuMemAdvise(pointer, bytes, advice, location.type == DEVICE_LOCATION ? location.id : HOST_DEVICE);
}

CUresult cuStreamAttachMemAsync(CUstream given, CUdeviceptr pointer, size_t bytes, unsigned flags) {
    CUstream stream;
    NEED_INIT();
    CUresult result = sg_stream(given, &stream);
    const struct sg_block *block = sg_find_block(pointer);
    if (result != CUDA_SUCCESS)
        return result;
    if (!block || block->kind != SG_MANAGED || (bytes && bytes != block->bytes) ||
        (flags != 1 && flags != 2 && flags != 4))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute, CUdeviceptr pointer,
                                size_t bytes) {
    CUresult result = check_range(pointer, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    if (!data || size < sizeof(int) || attribute == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const int unset = attribute == 1 ? 0 : -2; /* not read-mostly; no preferred, last or accessing device */
    memset(data, 0, size);
    memcpy(data, &unset, sizeof unset);
    return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes, size_t count,
                                 CUdeviceptr pointer, size_t bytes) {
    if (!data || !sizes || !attributes || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUresult result = cuMemRangeGetAttribute(data[i], sizes[i], attributes[i], pointer, bytes);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}
