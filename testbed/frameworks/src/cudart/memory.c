/* Memory: allocated, freed, copied, set, asked about, shared between processes. */
#include <string.h>

#include "runtime.h"

WITH_CONTEXT(cudaMemGetInfo, (size_t *free_bytes, size_t *total), cuMemGetInfo(free_bytes, total))
WITH_CONTEXT(cudaMallocManaged, (void **pointer, size_t bytes, unsigned flags),
             cuMemAllocManaged((CUdeviceptr *)pointer, bytes, flags))
WITH_CONTEXT(cudaHostAlloc, (void **pointer, size_t bytes, unsigned flags), cuMemHostAlloc(pointer, bytes, flags))
WITH_CONTEXT(cudaMallocHost, (void **pointer, size_t bytes), cuMemHostAlloc(pointer, bytes, 0))
WITH_CONTEXT(cudaHostRegister, (void *pointer, size_t bytes, unsigned flags), cuMemHostRegister(pointer, bytes, flags))
WITH_CONTEXT(cudaHostUnregister, (void *pointer), cuMemHostUnregister(pointer))
WITH_CONTEXT(cudaHostGetFlags, (unsigned *flags, void *pointer), cuMemHostGetFlags(flags, pointer))
WITH_CONTEXT(cudaHostGetDevicePointer, (void **device, void *host, unsigned flags),
             cuMemHostGetDevicePointer((CUdeviceptr *)device, host, flags))
WITH_CONTEXT(cudaMallocAsync, (void **pointer, size_t bytes, cudaStream_t stream),
             cuMemAllocAsync((CUdeviceptr *)pointer, bytes, stream))
WITH_CONTEXT(cudaMallocFromPoolAsync, (void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
             cuMemAllocFromPoolAsync((CUdeviceptr *)pointer, bytes, pool, stream))
WITH_CONTEXT(cudaFreeAsync, (void *pointer, cudaStream_t stream), cuMemFreeAsync(POINTER(pointer), stream))
WITHOUT_CONTEXT(cudaMemPoolCreate, (cudaMemPool_t *pool, const struct cudaMemPoolProps *properties),
                cuMemPoolCreate(pool, (const CUmemPoolProps *)properties))
WITHOUT_CONTEXT(cudaMemPoolDestroy, (cudaMemPool_t pool), cuMemPoolDestroy(pool))
WITHOUT_CONTEXT(cudaMemPoolGetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
                cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value))
WITHOUT_CONTEXT(cudaMemPoolSetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
                cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value))
WITHOUT_CONTEXT(cudaMemPoolSetAccess, (cudaMemPool_t pool, const struct cudaMemAccessDesc *descriptions, size_t count),
                cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)descriptions, count))
WITHOUT_CONTEXT(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t bytes), cuMemPoolTrimTo(pool, bytes))
WITH_CONTEXT(cudaMemset, (void *pointer, int value, size_t bytes),
             cuMemsetD8(POINTER(pointer), (unsigned char)value, bytes))
WITH_CONTEXT(cudaMemsetAsync, (void *pointer, int value, size_t bytes, cudaStream_t stream),
             cuMemsetD8Async(POINTER(pointer), (unsigned char)value, bytes, stream))
WITH_CONTEXT(cudaMemset2DAsync,
             (void *pointer, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
             cuMemsetD2D8Async(POINTER(pointer), pitch, (unsigned char)value, width, height, stream))
WITH_CONTEXT(cudaStreamAttachMemAsync, (cudaStream_t stream, void *pointer, size_t bytes, unsigned flags),
             cuStreamAttachMemAsync(stream, POINTER(pointer), bytes, flags))

cudaError_t CUDARTAPI cudaMalloc(void **pointer, size_t bytes) {
    CUdeviceptr address = 0;
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess)
        return entered;
    CUresult result = bytes ? driver.cuMemAlloc(&address, bytes) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        *pointer = (void *)(uintptr_t)address;
    return runtime_done(result);
}

cudaError_t CUDARTAPI cudaFree(void *pointer) {
    cudaError_t entered = runtime_enter(); /* cudaFree(0) is the usual way to make a context */
    if (entered != cudaSuccess)
        return entered;
    return runtime_done(pointer ? driver.cuMemFree(POINTER(pointer)) : CUDA_SUCCESS);
}

cudaError_t CUDARTAPI cudaFreeHost(void *pointer) {
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess)
        return entered;
    return runtime_done(pointer ? driver.cuMemFreeHost(pointer) : CUDA_SUCCESS);
}

/* ---- copies: the kind says which of the driver's calls it becomes */

static CUresult copy_now(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return driver.cuMemcpyHtoD(POINTER(to), from, bytes);
    case cudaMemcpyDeviceToHost:
        return driver.cuMemcpyDtoH(to, POINTER(from), bytes);
    case cudaMemcpyDeviceToDevice:
        return driver.cuMemcpyDtoD(POINTER(to), POINTER(from), bytes);
    default:
        return driver.cuMemcpy(POINTER(to), POINTER(from), bytes);
    }
}

static CUresult copy_in_order(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, CUstream stream) {
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return driver.cuMemcpyHtoDAsync(POINTER(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
        return driver.cuMemcpyDtoHAsync(to, POINTER(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
        return driver.cuMemcpyDtoDAsync(POINTER(to), POINTER(from), bytes, stream);
    default:
        return driver.cuMemcpyAsync(POINTER(to), POINTER(from), bytes, stream);
    }
}

cudaError_t CUDARTAPI cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess || bytes == 0)
        return entered;
    return runtime_done(copy_now(to, from, bytes, kind));
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                      cudaStream_t stream) {
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess || bytes == 0)
        return entered;
    return runtime_done(copy_in_order(to, from, bytes, kind, stream));
}

static CUmemorytype type_of(enum cudaMemcpyKind kind, bool is_source) {
    if (kind == cudaMemcpyDefault)
        return CU_MEMORYTYPE_UNIFIED;
    enum cudaMemcpyKind from_host = cudaMemcpyHostToDevice, to_host = cudaMemcpyDeviceToHost;
    bool is_host = kind == cudaMemcpyHostToHost || kind == (is_source ? from_host : to_host);
    return is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

static CUDA_MEMCPY2D rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                          enum cudaMemcpyKind kind) {
    return (CUDA_MEMCPY2D){
        .srcMemoryType = type_of(kind, true),
        .srcHost = from,
        .srcDevice = POINTER(from),
        .srcPitch = from_pitch,
        .dstMemoryType = type_of(kind, false),
        .dstHost = to,
        .dstDevice = POINTER(to),
        .dstPitch = to_pitch,
        .WidthInBytes = width,
        .Height = height,
    };
}

cudaError_t CUDARTAPI cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                        size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess || width == 0 || height == 0)
        return entered;
    CUDA_MEMCPY2D copy = rows(to, to_pitch, from, from_pitch, width, height, kind);
    return runtime_done(driver.cuMemcpy2DAsync(&copy, stream));
}

cudaError_t CUDARTAPI cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                   size_t height, enum cudaMemcpyKind kind) {
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess || width == 0 || height == 0)
        return entered;
    CUDA_MEMCPY2D copy = rows(to, to_pitch, from, from_pitch, width, height, kind);
    return runtime_done(driver.cuMemcpy2DUnaligned(&copy));
}

cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                          cudaStream_t stream) {
    CUcontext target, source;
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess || bytes == 0)
        return entered;
    CUresult result = runtime_primary(to_device, &target);
    if (result == CUDA_SUCCESS)
        result = runtime_primary(from_device, &source);
    if (result == CUDA_SUCCESS)
        result = driver.cuMemcpyPeerAsync(POINTER(to), target, POINTER(from), source, bytes, stream);
    return runtime_done(result);
}

/* ---- registered variables */

cudaError_t CUDARTAPI cudaGetSymbolAddress(void **address, const void *symbol) {
    CUdeviceptr found;
    cudaError_t result = runtime_symbol(symbol, &found, NULL);
    if (result == cudaSuccess)
        *address = (void *)(uintptr_t)found;
    return result;
}

cudaError_t CUDARTAPI cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                                         enum cudaMemcpyKind kind) {
    CUdeviceptr found;
    cudaError_t result = runtime_symbol(symbol, &found, NULL);
    return result != cudaSuccess ? result : cudaMemcpy((void *)(uintptr_t)(found + offset), from, bytes, kind);
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
                                           enum cudaMemcpyKind kind) {
    CUdeviceptr found;
    cudaError_t result = runtime_symbol(symbol, &found, NULL);
    return result != cudaSuccess ? result : cudaMemcpy(to, (const void *)(uintptr_t)(found + offset), bytes, kind);
}

/* ---- pointers */

static enum cudaMemoryType kind_of(unsigned type, unsigned is_managed) {
    if (is_managed)
        return cudaMemoryTypeManaged;
    return type == CU_MEMORYTYPE_HOST     ? cudaMemoryTypeHost
           : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                          : cudaMemoryTypeUnregistered;
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer) {
    unsigned type = 0, is_managed = 0;
    int device = -2; /* what the runtime says of memory that it does not know */
    void *on_device = NULL, *on_host = NULL;
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *answers[] = {&type, &is_managed, &device, &on_device, &on_host};
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess)
        return entered;
    CUresult result = driver.cuPointerGetAttributes(5, asked, answers, POINTER(pointer));
    memset(attributes, 0, sizeof *attributes);
    attributes->type = kind_of(type, is_managed);
    attributes->device = type || is_managed ? device : -2;
    attributes->devicePointer = on_device;
    attributes->hostPointer = type || is_managed ? on_host : NULL;
    return runtime_done(result);
}

/* ---- between processes: the runtime's handles are the driver's */

cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer) {
    cudaError_t entered = runtime_enter();
    return entered != cudaSuccess
               ? entered
               : runtime_done(driver.cuIpcGetMemHandle((CUipcMemHandle *)handle, POINTER(pointer)));
}

cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned flags) {
    CUipcMemHandle given;
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess)
        return entered;
    memcpy(&given, &handle, sizeof given);
    return runtime_done(driver.cuIpcOpenMemHandle((CUdeviceptr *)pointer, given, flags));
}

cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle) {
    CUipcEventHandle given;
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess)
        return entered;
    memcpy(&given, &handle, sizeof given);
    return runtime_done(driver.cuIpcOpenEventHandle(event, given));
}

WITH_CONTEXT(cudaIpcCloseMemHandle, (void *pointer), cuIpcCloseMemHandle(POINTER(pointer)))
WITH_CONTEXT(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event),
             cuIpcGetEventHandle((CUipcEventHandle *)handle, event))
