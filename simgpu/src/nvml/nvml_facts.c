/* NVML: questions whose answer is one number that never changes, or that this device has no part for. */
#include "nvml.h"

#define FACT(name, expression)                                                                                         \
    nvmlReturn_t name(nvmlDevice_t device, unsigned *value) {                                                          \
        NV_CHECK(device, value);                                                                                       \
        *value = (unsigned)(expression);                                                                               \
        return NVML_SUCCESS;                                                                                           \
    }

/* NVML's own number of an architecture, from the compute capability */
static unsigned architecture(const struct sg_device_card *card) {
    static const unsigned by_major[] = {0, 0, 0, 2, 0, 3, 4, 5, 7, 9, 10};
    if (card->capability_major == 7 && card->capability_minor == 5)
        return 6;
    if (card->capability_major == 8 && card->capability_minor == 9)
        return 8;
    return card->capability_major < sizeof by_major / sizeof *by_major ? by_major[card->capability_major] : 0;
}

FACT(nvmlDeviceGetBrand, 2) /* Tesla */
FACT(nvmlDeviceGetArchitecture, architecture(nv_card(device)))
FACT(nvmlDeviceGetNumaNodeId, nv_card(device)->numa_node)
FACT(nvmlDeviceGetMemoryBusWidth, nv_card(device)->bus_bits)
FACT(nvmlDeviceGetNumGpuCores, nv_card(device)->multiprocessors * 64)
FACT(nvmlDeviceGetComputeMode, 0)
FACT(nvmlDeviceGetPersistenceMode, 1)
FACT(nvmlDeviceGetDisplayMode, 0)
FACT(nvmlDeviceIsMigDeviceHandle, 0)
FACT(nvmlDeviceGetMaxMigDeviceCount, 0)

static unsigned clock_of(nvmlDevice_t device, unsigned type) {
    return (type == 2 ? nv_card(device)->memory_clock_khz : nv_card(device)->clock_khz) / 1000;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned type, unsigned *megahertz) {
    NV_CHECK(device, megahertz);
    if (type > 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    *megahertz = clock_of(device, type);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned type, unsigned *megahertz) {
    return nvmlDeviceGetClockInfo(device, type, megahertz);
}

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned *percent) {
    NV_CHECK(device, percent);
    return NVML_ERROR_NOT_SUPPORTED; /* data centre cards are cooled by the chassis */
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    NV_CHECK(device, current);
    if (!pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    *current = *pending = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending) {
    NV_CHECK(device, current);
    if (!pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (nv_card(device)->capability_major < 8 || nv_card(device)->capability_minor != 0)
        return NVML_ERROR_NOT_SUPPORTED; /* only A100 and H100 of our models can */
    *current = *pending = atomic_load(&sg_client.map.control->fault[device->card].mig);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *instance) {
    (void)index;
    NV_CHECK(device, instance);
    return NVML_ERROR_NOT_FOUND; /* the mode can be on, but instances are not modelled */
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned *level) {
    NV_CHECK(one, level);
    NV_CHECK(other, level);
    *level = nv_card(one)->numa_node == nv_card(other)->numa_node ? 40 : 50; /* node, system */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, unsigned kind, unsigned *status) {
    NV_CHECK(one, status);
    NV_CHECK(other, status);
    *status = kind > 4 ? 6 : 0;
    return NVML_SUCCESS;
}
