/* What a program is told of its memory: with a cap, the cap is the card. And the wrappers that fit nowhere else. */
#include <string.h>

#include "driver/contexts.h"
#include "driver/devices.h"
#include "flight/flight.h"
#include "gate/thread_slots.h"
#include "memory/memory.h"
#include "turns/turns.h"
#include "wrappers/claims.h"
#include "wrappers/wrap.h"

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    if (!DRIVER_HAS(cuMemGetInfo_v2))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver.cuMemGetInfo_v2(free, total);
    int gpu = result == CUDA_SUCCESS && turns_ready() ? locate_current() : -1;
    if (gpu < 0)
        return result;
    claims_settle_pools(gpu);
    uint64_t all = least(*total, memory_cap()), used = memory_container_use(gpu);
    uint64_t left = all > used ? all - used : 0;
    *free = memory_is_managed(gpu) ? left : least(*free, left); /* what others hold there can be paged out, if it is managed */
    *total = all;
    return result;
}

EXPORT CUresult cuMemGetInfo(unsigned int *free, unsigned int *total) {
    size_t wide_free, wide_total;
    CUresult result = cuMemGetInfo_v2(&wide_free, &wide_total);
    if (result == CUDA_SUCCESS) {
        *free = (unsigned int)least(wide_free, UINT32_MAX);
        *total = (unsigned int)least(wide_total, UINT32_MAX);
    }
    return result;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
    if (!DRIVER_HAS(cuDeviceTotalMem_v2))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver.cuDeviceTotalMem_v2(bytes, dev);
    if (result == CUDA_SUCCESS && turns_ready_soon() && locate_device(dev) >= 0)
        *bytes = least(*bytes, memory_cap());
    return result;
}

EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev) {
    size_t wide;
    CUresult result = cuDeviceTotalMem_v2(&wide, dev);
    if (result == CUDA_SUCCESS)
        *bytes = (unsigned int)least(wide, UINT32_MAX);
    return result;
}

/* ------------------------------------------------------------------------------------------------ NVML */

static int gpu_of_nvml(nvmlDevice_t device) {
    char uuid[96];
    if (!DRIVER_HAS(nvmlDeviceGetUUID) || driver.nvmlDeviceGetUUID(device, uuid, sizeof uuid) || !turns_ready_soon())
        return -1;
    return memory_cap() == UINT64_MAX ? -1 : devices_find(uuid);
}

#define SHOW_CAP(memory)                                                                                                \
    do {                                                                                                                \
        (memory)->total = least((memory)->total, memory_cap());                                                         \
        (memory)->used = least(memory_container_use(gpu), (memory)->total);                                             \
        (memory)->free = (memory)->total - (memory)->used;                                                              \
    } while (0)

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    if (!DRIVER_HAS(nvmlDeviceGetMemoryInfo))
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    nvmlReturn_t result = driver.nvmlDeviceGetMemoryInfo(device, memory);
    int gpu = result ? -1 : gpu_of_nvml(device);
    if (gpu >= 0)
        SHOW_CAP(memory);
    return result;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    if (!DRIVER_HAS(nvmlDeviceGetMemoryInfo_v2))
        return NVML_ERROR_FUNCTION_NOT_FOUND;
    nvmlReturn_t result = driver.nvmlDeviceGetMemoryInfo_v2(device, memory);
    int gpu = result ? -1 : gpu_of_nvml(device);
    if (gpu >= 0) {
        SHOW_CAP(memory);
        memory->reserved = 0;
    }
    return result;
}

/* ------------------------------------------------------------------------------------------------ the others */

EXPORT CUresult cuStreamDestroy_v2(CUstream hStream) { END_STREAM(cuStreamDestroy_v2, hStream); }

EXPORT CUresult cuStreamDestroy(CUstream hStream) { END_STREAM(cuStreamDestroy, hStream); }

/* With the flag it is two calls in one: the second is cuGraphUpload. */
#define INSTANTIATE(function, own_default)                                                                              \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    bool uploads = instantiateParams && instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;                  \
    CUstream stream = uploads ? instantiateParams->hUploadStream : NULL;                                                \
    const struct key key = plain_key((uintptr_t)&driver.function, 0);                                                   \
    struct slot *slot = uploads ? launch_begin(stream ? stream : own_default, &key) : NULL;                               \
    CUresult result = driver.function(phGraphExec, hGraph, instantiateParams);                                          \
    launch_end(slot);                                                                                                   \
    return result

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                             CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    INSTANTIATE(cuGraphInstantiateWithParams, NULL);
}

EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
                                                  CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    INSTANTIATE(cuGraphInstantiateWithParams_ptsz, CU_STREAM_PER_THREAD);
}

/* One kernel over several GPUs: a turn on each of them first, then the gate of the first. */
EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList, unsigned int numDevices,
                                                     unsigned int flags) {
    if (!DRIVER_HAS(cuLaunchCooperativeKernelMultiDevice))
        return CUDA_ERROR_NOT_FOUND;
    CUcontext context;
    for (unsigned int i = 0; launchParamsList && i < numDevices && turns_ready(); i++) {
        int gpu = locate(launchParamsList[i].hStream, &context);
        if (gpu >= 0 && launch_slot() && !turns_wait(gpu, own_slot))
            launch_end(own_slot);
    }
    const struct key key = plain_key((uintptr_t)(launchParamsList ? launchParamsList->function : NULL), numDevices);
    struct slot *slot = launch_begin(launchParamsList && numDevices ? launchParamsList->hStream : NULL, &key);
    CUresult result = driver.cuLaunchCooperativeKernelMultiDevice(launchParamsList, numDevices, flags);
    launch_end(slot);
    return result;
}
