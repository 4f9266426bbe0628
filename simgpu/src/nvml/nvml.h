/* The functions that libnvidia-ml.so.1 exports, in our own declarations: prototypes, results and structures of the ABI. */
#ifndef SIMGPU_NVML_H
#define SIMGPU_NVML_H

#include "shared/devices/state.h"
#include "shared/process/client.h"

#define SG_EXPORT __attribute__((visibility("default")))

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct nvml_utilization {
    unsigned gpu, memory;
};

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

struct nvml_pci_v2 {
    char bus_id[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id, reserved[4];
};

struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

struct nvml_process_v1 {
    unsigned pid;
    unsigned long long used_bytes;
};

struct nvml_process_sample {
    unsigned pid;
    unsigned long long timestamp_us;
    unsigned sm, memory, encoder, decoder;
};

struct nvml_temperature {
    unsigned version, sensor;
    int temperature;
};

struct nvml_event {
    nvmlDevice_t device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

struct nvml_event_v1 {
    nvmlDevice_t device;
    unsigned long long type, data;
};

struct nvml_bar1 {
    unsigned long long total, free, used;
};

struct nvml_field {
    unsigned field, scope;
    long long timestamp_us, latency_us;
    unsigned value_type;
    nvmlReturn_t result;
    unsigned long long value;
};

struct nvml_conf_compute {
    unsigned environment, feature, developer_tools;
};

struct nvml_conf_compute_settings {
    unsigned version, environment, feature, developer_tools, multi_gpu;
};

struct nvmlDevice_st {
    uint32_t index; /* among the visible devices */
    uint32_t card;  /* among all devices */
};

/* The checks of every call on a device: NVML is initialised, the handle is ours, the device is not lost, and there is a
 * place for the answer. */
nvmlReturn_t nv_check(nvmlDevice_t device, const void *out);
nvmlReturn_t nv_ready(void);
uint32_t nv_count(void);
nvmlDevice_t nv_device_of_card(uint32_t card);

static inline const struct sg_device_card *nv_card(nvmlDevice_t device) {
    return &sg_client.map.header->card[device->card];
}

#define NV_SAMPLE_NS 166666667ull

/* The whole percentage of a time in which the device, or one context (serial 0: all), executed work. */
unsigned nv_busy_percent(const struct sg_state *state, uint32_t card, uint32_t serial, uint64_t since, uint64_t until);

#define NV_CHECK(device, out)                                                                                          \
    do {                                                                                                               \
        nvmlReturn_t checked = nv_check(device, out);                                                                  \
        if (checked != NVML_SUCCESS)                                                                                   \
            return checked;                                                                                            \
    } while (0)

#define NV(name, ...) SG_EXPORT nvmlReturn_t name(__VA_ARGS__);
#include "nvml.def"
#undef NV

SG_EXPORT const char *nvmlErrorString(nvmlReturn_t result);

#endif
