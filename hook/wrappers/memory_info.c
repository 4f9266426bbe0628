/* The wrappers of what a program is told of its memory: with a cap, the cap is the card. */
#include <string.h>

#include "driver/contexts.h"
#include "driver/devices.h"
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
    uint64_t left = memory_left(gpu, *total);
    *free = memory_is_managed(gpu) ? left : least(*free, left); /* what others hold there can be paged out, if it is managed */
    *total = least(*total, memory_cap());
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
