/* Devices: how many, what they are, what they can do. */
#include <string.h>

#include "runtime.h"

/* of cuda_profiler_api.h, which is in a package of its own */
cudaError_t CUDARTAPI cudaProfilerStart(void);
cudaError_t CUDARTAPI cudaProfilerStop(void);

WITHOUT_CONTEXT(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device),
                cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device))
WITHOUT_CONTEXT(cudaDeviceGetPCIBusId, (char *id, int length, int device), cuDeviceGetPCIBusId(id, length, device))
WITHOUT_CONTEXT(cudaDeviceGetByPCIBusId, (int *device, const char *id), cuDeviceGetByPCIBusId(device, id))
WITHOUT_CONTEXT(cudaDeviceCanAccessPeer, (int *can, int device, int peer), cuDeviceCanAccessPeer(can, device, peer))
WITHOUT_CONTEXT(cudaDeviceGetP2PAttribute, (int *value, enum cudaDeviceP2PAttr attribute, int device, int peer),
                cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute, device, peer))
WITHOUT_CONTEXT(cudaDeviceGetDefaultMemPool, (cudaMemPool_t *pool, int device), cuDeviceGetDefaultMemPool(pool, device))
WITHOUT_CONTEXT(cudaDeviceGetMemPool, (cudaMemPool_t *pool, int device), cuDeviceGetMemPool(pool, device))
WITHOUT_CONTEXT(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), cuDeviceSetMemPool(device, pool))
WITHOUT_CONTEXT(cudaDeviceGetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType attribute, void *value),
                cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value))
WITHOUT_CONTEXT(cudaDeviceSetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType attribute, void *value),
                cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, value))
WITHOUT_CONTEXT(cudaDeviceGraphMemTrim, (int device), cuDeviceGraphMemTrim(device))
WITH_CONTEXT(cudaDeviceSynchronize, (void), cuCtxSynchronize())
WITH_CONTEXT(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
             cuCtxGetStreamPriorityRange(least, greatest))
WITH_CONTEXT(cudaDeviceGetLimit, (size_t *value, enum cudaLimit limit), cuCtxGetLimit(value, (CUlimit)limit))
WITH_CONTEXT(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value), cuCtxSetLimit((CUlimit)limit, value))
WITH_CONTEXT(cudaGetDeviceFlags, (unsigned *flags), cuCtxGetFlags(flags))
WITH_CONTEXT(cudaProfilerStart, (void), cuProfilerStart())
WITH_CONTEXT(cudaProfilerStop, (void), cuProfilerStop())

cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned flags) {
    int device;
    cudaError_t found = cudaGetDevice(&device);
    return found != cudaSuccess ? found : runtime_done(driver.cuDevicePrimaryCtxSetFlags(device, flags));
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count) {
    *count = 0;
    cudaError_t loaded = runtime_load();
    if (loaded != cudaSuccess)
        return loaded;
    CUresult result = driver.cuDeviceGetCount(count);
    return runtime_done(result == CUDA_SUCCESS && *count == 0 ? CUDA_ERROR_NO_DEVICE : result);
}

static cudaError_t with_peer(int peer, CUresult (*act)(CUcontext)) {
    CUcontext context;
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess)
        return entered;
    CUresult result = runtime_primary(peer, &context);
    return runtime_done(result == CUDA_SUCCESS ? act(context) : result);
}

static CUresult enable(CUcontext context) {
    return driver.cuCtxEnablePeerAccess(context, 0);
}

static CUresult disable(CUcontext context) {
    return driver.cuCtxDisablePeerAccess(context);
}

cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    return flags ? runtime_done(CUDA_ERROR_INVALID_VALUE) : with_peer(peer, enable);
}

cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peer) {
    return with_peer(peer, disable);
}

/* ---- cudaDeviceProp: each of its integers is an attribute */

enum width { INT, SIZE };

struct property {
    CUdevice_attribute attribute;
    enum width width;
    size_t offset;
};

#define AT(field, attribute) {CU_DEVICE_ATTRIBUTE_##attribute, INT, offsetof(struct cudaDeviceProp, field)}
#define SIZE_AT(field, attribute) {CU_DEVICE_ATTRIBUTE_##attribute, SIZE, offsetof(struct cudaDeviceProp, field)}

static const struct property PROPERTIES[] = {
    SIZE_AT(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK),
    AT(regsPerBlock, MAX_REGISTERS_PER_BLOCK),
    AT(warpSize, WARP_SIZE),
    SIZE_AT(memPitch, MAX_PITCH),
    AT(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
    AT(maxThreadsDim[0], MAX_BLOCK_DIM_X),
    AT(maxThreadsDim[1], MAX_BLOCK_DIM_Y),
    AT(maxThreadsDim[2], MAX_BLOCK_DIM_Z),
    AT(maxGridSize[0], MAX_GRID_DIM_X),
    AT(maxGridSize[1], MAX_GRID_DIM_Y),
    AT(maxGridSize[2], MAX_GRID_DIM_Z),
    SIZE_AT(totalConstMem, TOTAL_CONSTANT_MEMORY),
    AT(major, COMPUTE_CAPABILITY_MAJOR),
    AT(minor, COMPUTE_CAPABILITY_MINOR),
    SIZE_AT(textureAlignment, TEXTURE_ALIGNMENT),
    SIZE_AT(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT),
    AT(multiProcessorCount, MULTIPROCESSOR_COUNT),
    AT(integrated, INTEGRATED),
    AT(canMapHostMemory, CAN_MAP_HOST_MEMORY),
    SIZE_AT(surfaceAlignment, SURFACE_ALIGNMENT),
    AT(concurrentKernels, CONCURRENT_KERNELS),
    AT(ECCEnabled, ECC_ENABLED),
    AT(pciBusID, PCI_BUS_ID),
    AT(pciDeviceID, PCI_DEVICE_ID),
    AT(pciDomainID, PCI_DOMAIN_ID),
    AT(asyncEngineCount, ASYNC_ENGINE_COUNT),
    AT(unifiedAddressing, UNIFIED_ADDRESSING),
    AT(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH),
    AT(l2CacheSize, L2_CACHE_SIZE),
    AT(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR),
    AT(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED),
    AT(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED),
    AT(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED),
    SIZE_AT(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    AT(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR),
    AT(managedMemory, MANAGED_MEMORY),
    AT(isMultiGpuBoard, MULTI_GPU_BOARD),
    AT(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED),
    AT(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS),
    AT(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS),
    AT(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED),
    AT(cooperativeLaunch, COOPERATIVE_LAUNCH),
    SIZE_AT(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    AT(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR),
    SIZE_AT(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK),
    AT(hostRegisterSupported, HOST_REGISTER_SUPPORTED),
    AT(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED),
    AT(ipcEventSupported, IPC_EVENT_SUPPORTED),
    AT(clusterLaunch, CLUSTER_LAUNCH),
    AT(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS),
};

static void read_property(struct cudaDeviceProp *properties, const struct property *property, int device) {
    int value = 0;
    if (driver.cuDeviceGetAttribute(&value, property->attribute, device) != CUDA_SUCCESS)
        return; /* a driver that does not know it leaves 0 */
    char *place = (char *)properties + property->offset;
    size_t wide = (size_t)value;
    if (property->width == SIZE)
        memcpy(place, &wide, sizeof wide);
    else
        memcpy(place, &value, sizeof value);
}

cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    cudaError_t loaded = runtime_load();
    if (loaded != cudaSuccess)
        return loaded;
    memset(properties, 0, sizeof *properties);
    CUresult result = driver.cuDeviceGetName(properties->name, sizeof properties->name, device);
    if (result == CUDA_SUCCESS)
        result = driver.cuDeviceTotalMem(&properties->totalGlobalMem, device);
    if (result == CUDA_SUCCESS)
        result = driver.cuDeviceGetUuid((CUuuid *)&properties->uuid, device);
    for (size_t i = 0; result == CUDA_SUCCESS && i < sizeof PROPERTIES / sizeof *PROPERTIES; i++)
        read_property(properties, &PROPERTIES[i], device);
    return runtime_done(result);
}
