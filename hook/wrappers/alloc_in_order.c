/* The wrappers of memory in stream order, and of the pools it comes from.
 *
 * The rule: what a pool keeps is counted (memory/pools.h), so an allocation that the pool can serve from it is not counted
 * twice.  Counted is where the memory is: on the stream's GPU, or on the given pool's.  The turn is waited for after the
 * claim, never with the gate held. */
#include "driver/contexts.h"
#include "driver/devices.h"
#include "flight/capture.h"
#include "memory/memory.h"
#include "memory/pools.h"
#include "turns/turns.h"
#include "wrappers/wrap.h"

/* ------------------------------------------------------------------------------------------------ pools come and go */

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
    if (!DRIVER_HAS(cuMemPoolCreate))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver.cuMemPoolCreate(pool, poolProps);
    if (result == CUDA_SUCCESS && !inside_driver && turns_ready())
        pools_note(*pool, poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? locate_device(poolProps->location.id) : -1);
    return result;
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    if (!DRIVER_HAS(cuMemPoolDestroy))
        return CUDA_ERROR_NOT_FOUND;
    int gpu = -1;
    bool is_known = pools_find(pool, &gpu);
    pools_drop(pool); /* what is still allocated from it stays counted, until it is freed */
    CUresult result = driver.cuMemPoolDestroy(pool);
    if (result != CUDA_SUCCESS && is_known)
        pools_note(pool, gpu);
    if (gpu >= 0)
        claims_settle_pools(gpu);
    return result;
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
    if (!DRIVER_HAS(cuMemPoolTrimTo))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver.cuMemPoolTrimTo(pool, minBytesToKeep);
    for (int gpu = 0; gpu < devices_count(); gpu++)
        if (memory_kept(gpu))
            claims_settle_pools(gpu);
    return result;
}

/* ------------------------------------------------------------------------------------------------ in stream order */

#define NOT_READY (-3) /* locate gives -1 and -2 */

/* Where an allocation in stream order is counted. */
struct target {
    int gpu; /* negative: not ours to count */
    CUcontext context;
    CUgraph graph;   /* captured: nothing is taken before it is launched */
    uint64_t reused; /* of what its pool keeps */
};

static int gpu_of_stream(CUstream stream, CUcontext *context) {
    const struct segment *segment = own_slot ? own_slot->current : NULL;
    if (inside_driver)
        return -1;
    if (segment && segment->stream && segment_serves(segment, stream)) {
        *context = segment->context;
        return segment->gpu;
    }
    return turns_ready() ? locate(stream, context) : NOT_READY;
}

/* The pool's GPU; of a pool that nobody was seen to make, the GPU whose default pool it is, else the stream's. */
static int gpu_of_pool(CUmemoryPool pool, int gpu_of_stream) {
    int gpu = gpu_of_stream, devices = 0;
    bool is_known = pools_find(pool, &gpu);
    if (!is_known && DRIVER_HAS(cuDeviceGetDefaultMemPool) && DRIVER_HAS(cuDeviceGetCount))
        driver.cuDeviceGetCount(&devices);
    for (int device = 0; device < devices; device++) {
        CUmemoryPool its_own = NULL;
        if (driver.cuDeviceGetDefaultMemPool(&its_own, device) == CUDA_SUCCESS && its_own == pool)
            gpu = locate_device(device);
    }
    if (!is_known)
        pools_note(pool, gpu);
    return gpu;
}

static CUgraph graph_of(CUstream stream) {
    CUstreamCaptureStatus status = 0;
    CUgraph graph = NULL;
    if (capture_covers(stream) && DRIVER_HAS(cuStreamGetCaptureInfo_v2))
        driver.cuStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, NULL, NULL);
    return graph;
}

static CUresult claim_in_order(CUstream stream, CUmemoryPool pool, uint64_t bytes, struct target *target) {
    *target = (struct target){.gpu = gpu_of_stream(stream, &target->context)};
    if (target->gpu < -1 || inside_driver)
        return UNCOUNTED(CUDA_SUCCESS);
    if (bytes > MEMORY_MOST_BYTES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    target->graph = graph_of(stream);
    if (!pool && target->gpu >= 0 && DRIVER_HAS(cuDeviceGetMemPool))
        driver.cuDeviceGetMemPool(&pool, devices_ordinal(target->gpu));
    if (pool)
        target->gpu = gpu_of_pool(pool, target->gpu);
    if (target->gpu < 0)
        return CUDA_SUCCESS;
    if (!target->graph)
        target->reused = memory_reuse(target->gpu, bytes);
    CUresult result = claims_make(target->gpu, UNPAGEABLE, bytes - target->reused);
    if (result != CUDA_SUCCESS && !target->graph)
        memory_keep_again(target->gpu, bytes, target->reused);
    return result;
}

static void settle_in_order(const struct target *target, CUresult result, CUdeviceptr pointer, uint64_t bytes) {
    struct allocation made = {.name = pointer, .bytes = bytes, .gpu = (signed char)target->gpu, .kind = UNPAGEABLE,
                              .space = POINTER, .context = target->context, .is_pooled = !target->graph};
    if (target->gpu < 0)
        return;
    if (target->graph) {
        made.owner = OF_GRAPH;
        made.graph = target->graph;
    }
    if (result == CUDA_SUCCESS) {
        memory_remember(&made);
    } else {
        claims_return(target->gpu, UNPAGEABLE, bytes - target->reused);
        if (!target->graph)
            memory_keep_again(target->gpu, bytes, target->reused);
    }
    if (!target->graph)
        claims_settle_pools(target->gpu);
}

#define ALLOCATE_IN_ORDER(function, stream, pool, arguments)                                                            \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    struct target target;                                                                                               \
    CUresult claimed = claim_in_order(stream, pool, bytesize, &target);                                                 \
    if (claimed != CUDA_SUCCESS)                                                                                        \
        return claimed;                                                                                                 \
    const struct key key = plain_key((uintptr_t)&driver.function, 0);                                                   \
    struct slot *slot = launch_begin(stream, &key);                                                                       \
    CUresult answer = INSIDE(driver.function arguments);                                                                \
    launch_end(slot);                                                                                                   \
    settle_in_order(&target, answer, answer == CUDA_SUCCESS ? *dptr : 0, bytesize);                                     \
    return answer

#define OWN_STREAM(stream) (stream ? stream : CU_STREAM_PER_THREAD)

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    ALLOCATE_IN_ORDER(cuMemAllocAsync, hStream, NULL, (dptr, bytesize, hStream));
}

EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    ALLOCATE_IN_ORDER(cuMemAllocAsync_ptsz, OWN_STREAM(hStream), NULL, (dptr, bytesize, hStream));
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    ALLOCATE_IN_ORDER(cuMemAllocFromPoolAsync, hStream, pool, (dptr, bytesize, pool, hStream));
}

EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    ALLOCATE_IN_ORDER(cuMemAllocFromPoolAsync_ptsz, OWN_STREAM(hStream), pool, (dptr, bytesize, pool, hStream));
}

#define FREE_IN_ORDER(function)                                                                                 \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    CUresult result = driver.function(dptr, hStream);                                                                   \
    int gpu = result == CUDA_SUCCESS ? claims_forget(POINTER, dptr) : -1;                                               \
    if (gpu >= 0)                                                                                                       \
        claims_settle_pools(gpu);                                                                                              \
    return result

EXPORT CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) { FREE_IN_ORDER(cuMemFreeAsync); }

EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) { FREE_IN_ORDER(cuMemFreeAsync_ptsz); }
