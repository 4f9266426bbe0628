/* The entry points of copies: each describes itself as a three-dimensional copy and hands it to a stream.
 *
 * The synchronous ones use the default stream and wait; the asynchronous ones do not wait (nor for pageable memory).
 */
#include <string.h>

#include "driver/base/queue.h"
#include "driver/base/thread.h"
#include "driver/work/work.h"

enum memory_type { HOST = 1, DEVICE = 2, ARRAY = 3, UNIFIED = 4 };

static CUresult start(CUstream given, const CUDA_MEMCPY3D *copy) {
    CUstream stream;
    NEED_INIT();
    CUresult result = sg_stream(given, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    return sg_submit(stream, &(struct sg_work){.type = SG_NODE_COPY, .copy = *copy});
}

static CUresult finish(const CUDA_MEMCPY3D *copy) {
    CUstream stream;
    CUresult result = start(NULL, copy);
    if (result == CUDA_SUCCESS)
        result = sg_stream(NULL, &stream);
    return result == CUDA_SUCCESS ? sg_wait_stream(stream) : result;
}

static CUDA_MEMCPY3D sized(size_t bytes) {
    return (CUDA_MEMCPY3D){.WidthInBytes = bytes, .Height = 1, .Depth = 1};
}

static void from_address(CUDA_MEMCPY3D *copy, enum memory_type type, uint64_t address) {
    copy->srcMemoryType = type;
    copy->srcDevice = address;
    copy->srcHost = (const void *)(uintptr_t)address;
}

static void to_address(CUDA_MEMCPY3D *copy, enum memory_type type, uint64_t address) {
    copy->dstMemoryType = type;
    copy->dstDevice = address;
    copy->dstHost = (void *)(uintptr_t)address;
}

static CUDA_MEMCPY3D line(enum memory_type to, uint64_t target, enum memory_type from, uint64_t source, size_t bytes) {
    CUDA_MEMCPY3D copy = sized(bytes);
    from_address(&copy, from, source);
    to_address(&copy, to, target);
    return copy;
}

static uint64_t number(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

/* One line: the synchronous and the asynchronous entry point of a copy between two addresses. */
#define PAIR(sync_name, async_name, to_type, to, from_type, from)                                                      \
    CUresult sync_name(to_type target, from_type source, size_t bytes) {                                               \
        const CUDA_MEMCPY3D copy = line(to, number((const void *)(uintptr_t)target), from,                             \
                                        number((const void *)(uintptr_t)source), bytes);                               \
        return finish(&copy);                                                                                          \
    }                                                                                                                  \
    CUresult async_name(to_type target, from_type source, size_t bytes, CUstream stream) {                             \
        const CUDA_MEMCPY3D copy = line(to, number((const void *)(uintptr_t)target), from,                             \
                                        number((const void *)(uintptr_t)source), bytes);                               \
        return start(stream, &copy);                                                                                   \
    }

PAIR(cuMemcpy, cuMemcpyAsync, CUdeviceptr, UNIFIED, CUdeviceptr, UNIFIED)
PAIR(cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, CUdeviceptr, DEVICE, const void *, HOST)
PAIR(cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, void *, HOST, CUdeviceptr, DEVICE)
PAIR(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, CUdeviceptr, DEVICE, CUdeviceptr, DEVICE)

static CUresult check_peers(CUcontext to, CUcontext from) {
    return sg_is(to, SG_CONTEXT_HANDLE) && sg_is(from, SG_CONTEXT_HANDLE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemcpyPeer(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes) {
    CUresult result = check_peers(to, from);
    return result == CUDA_SUCCESS ? cuMemcpyDtoD_v2(target, source, bytes) : result;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes,
                           CUstream stream) {
    CUresult result = check_peers(to, from);
    return result == CUDA_SUCCESS ? cuMemcpyDtoDAsync_v2(target, source, bytes, stream) : result;
}

/* ---- arrays */

static void from_array(CUDA_MEMCPY3D *copy, CUarray array, size_t offset) {
    copy->srcMemoryType = ARRAY;
    copy->srcArray = array;
    copy->srcXInBytes = offset;
}

static void to_array(CUDA_MEMCPY3D *copy, CUarray array, size_t offset) {
    copy->dstMemoryType = ARRAY;
    copy->dstArray = array;
    copy->dstXInBytes = offset;
}

CUresult cuMemcpyDtoA_v2(CUarray target, size_t offset, CUdeviceptr source, size_t bytes) {
    CUDA_MEMCPY3D copy = sized(bytes);
    to_array(&copy, target, offset);
    from_address(&copy, DEVICE, source);
    return finish(&copy);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr target, CUarray source, size_t offset, size_t bytes) {
    CUDA_MEMCPY3D copy = sized(bytes);
    from_array(&copy, source, offset);
    to_address(&copy, DEVICE, target);
    return finish(&copy);
}

CUresult cuMemcpyAtoA_v2(CUarray target, size_t target_offset, CUarray source, size_t source_offset, size_t bytes) {
    CUDA_MEMCPY3D copy = sized(bytes);
    from_array(&copy, source, source_offset);
    to_array(&copy, target, target_offset);
    return finish(&copy);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray target, size_t offset, const void *source, size_t bytes, CUstream stream) {
    CUDA_MEMCPY3D copy = sized(bytes);
    to_array(&copy, target, offset);
    from_address(&copy, HOST, number(source));
    return start(stream, &copy);
}

CUresult cuMemcpyAtoHAsync_v2(void *target, CUarray source, size_t offset, size_t bytes, CUstream stream) {
    CUDA_MEMCPY3D copy = sized(bytes);
    from_array(&copy, source, offset);
    to_address(&copy, HOST, number(target));
    return start(stream, &copy);
}

static CUresult wait_default(CUresult result) {
    CUstream stream;
    if (result == CUDA_SUCCESS)
        result = sg_stream(NULL, &stream);
    return result == CUDA_SUCCESS ? sg_wait_stream(stream) : result;
}

CUresult cuMemcpyHtoA_v2(CUarray target, size_t offset, const void *source, size_t bytes) {
    return wait_default(cuMemcpyHtoAAsync_v2(target, offset, source, bytes, NULL));
}

CUresult cuMemcpyAtoH_v2(void *target, CUarray source, size_t offset, size_t bytes) {
    return wait_default(cuMemcpyAtoHAsync_v2(target, source, offset, bytes, NULL));
}

/* ---- two and three dimensions */

static CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D *flat) {
    return (CUDA_MEMCPY3D){
        .srcXInBytes = flat->srcXInBytes, .srcY = flat->srcY, .srcMemoryType = flat->srcMemoryType,
        .srcHost = flat->srcHost, .srcDevice = flat->srcDevice, .srcArray = flat->srcArray,
        .srcPitch = flat->srcPitch, .dstXInBytes = flat->dstXInBytes, .dstY = flat->dstY,
        .dstMemoryType = flat->dstMemoryType, .dstHost = flat->dstHost, .dstDevice = flat->dstDevice,
        .dstArray = flat->dstArray, .dstPitch = flat->dstPitch, .WidthInBytes = flat->WidthInBytes,
        .Height = flat->Height, .Depth = 1,
    };
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *flat, CUstream stream) {
    if (!flat)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMCPY3D copy = from_2d(flat);
    return start(stream, &copy);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *flat) {
    return wait_default(cuMemcpy2DAsync_v2(flat, NULL));
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *flat) {
    return wait_default(cuMemcpy2DAsync_v2(flat, NULL));
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream) {
    return copy ? start(stream, copy) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy) {
    return wait_default(cuMemcpy3DAsync_v2(copy, NULL));
}

/* the same structure, with contexts where the other has reserved words */
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *peer, CUstream stream) {
    CUDA_MEMCPY3D copy;
    _Static_assert(sizeof copy == sizeof *peer, "the peer form has another layout");
    if (!peer)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&copy, peer, sizeof copy);
    copy.reserved0 = copy.reserved1 = NULL;
    return start(stream, &copy);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *peer) {
    return wait_default(cuMemcpy3DPeerAsync(peer, NULL));
}

/* ---- batches: of CUDA 12.8 with the index of the one that failed, of 13.0 without */

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *targets, CUdeviceptr *sources, size_t *sizes, size_t count,
                               CUmemcpyAttributes *attributes, size_t *indices, size_t attribute_count,
                               CUstream stream) {
    (void)attributes, (void)indices;
    if (!targets || !sources || !sizes || count == 0 || attribute_count > count || (uintptr_t)stream < 2)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUresult result = cuMemcpyAsync(targets[i], sources[i], sizes[i], stream);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr *targets, CUdeviceptr *sources, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attributes, size_t *indices, size_t attribute_count, size_t *failed,
                            CUstream stream) {
    CUresult result =
        cuMemcpyBatchAsync_v2(targets, sources, sizes, count, attributes, indices, attribute_count, stream);
    if (result != CUDA_SUCCESS && failed)
        *failed = SIZE_MAX; /* as the driver says of an error it cannot pin to one */
    return result;
}

CUresult cuMemcpyWithAttributesAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                                     CUmemcpyAttributes *attributes, CUstream stream) {
    (void)attributes;
    return cuMemcpyAsync(target, source, bytes, stream);
}

#define OPERAND_POINTER 1u

static void read_source(const CUmemcpy3DOperand *operand, CUDA_MEMCPY3D *copy) {
    if (operand->type == OPERAND_POINTER) {
        from_address(copy, UNIFIED, operand->op.ptr.ptr);
        copy->srcPitch = operand->op.ptr.rowLength;
        copy->srcHeight = operand->op.ptr.layerHeight;
        return;
    }
    from_array(copy, operand->op.array.array, operand->op.array.offset.x);
    copy->srcY = operand->op.array.offset.y, copy->srcZ = operand->op.array.offset.z;
}

static void read_target(const CUmemcpy3DOperand *operand, CUDA_MEMCPY3D *copy) {
    if (operand->type == OPERAND_POINTER) {
        to_address(copy, UNIFIED, operand->op.ptr.ptr);
        copy->dstPitch = operand->op.ptr.rowLength;
        copy->dstHeight = operand->op.ptr.layerHeight;
        return;
    }
    to_array(copy, operand->op.array.array, operand->op.array.offset.x);
    copy->dstY = operand->op.array.offset.y, copy->dstZ = operand->op.array.offset.z;
}

CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *operation, unsigned long long flags, CUstream stream) {
    if (!operation || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D copy = {.WidthInBytes = operation->extent.width,
                          .Height = operation->extent.height,
                          .Depth = operation->extent.depth};
    read_source(&operation->src, &copy);
    read_target(&operation->dst, &copy);
    return start(stream, &copy);
}

CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP *operations, unsigned long long flags,
                                 CUstream stream) {
    if (!operations || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUresult result = cuMemcpy3DWithAttributesAsync(&operations[i], flags, stream);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *operations, size_t *failed,
                              unsigned long long flags, CUstream stream) {
    CUresult result = cuMemcpy3DBatchAsync_v2(count, operations, flags, stream);
    if (result != CUDA_SUCCESS && failed)
        *failed = SIZE_MAX;
    return result;
}
