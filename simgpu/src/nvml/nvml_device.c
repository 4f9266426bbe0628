/* NVML: what a device is and how it does: identity, memory, load, heat, power, clocks, modes. */
#include <stdio.h>
#include <string.h>

#include "nvml.h"
#include "shared/devices/paging.h"
#include "shared/process/transaction.h"

#define VERSION_2_MEMORY 0x02000028u
#define VERSION_1_TEMPERATURE 0x0100000Cu
#define SHUTDOWN_TEMPERATURE 96u
#define SLOWDOWN_TEMPERATURE 93u
#define REASON_IDLE 1ull
#define REASON_HOT 0x20ull

static uint64_t share_of(const struct sg_interval *interval, uint64_t since, uint64_t until) {
    uint64_t from = interval->start_ns > since ? interval->start_ns : since;
    uint64_t to = interval->end_ns < until ? interval->end_ns : until;
    return to > from ? to - from : 0;
}

unsigned nv_busy_percent(const struct sg_state *state, uint32_t card, uint32_t serial, uint64_t since, uint64_t until) {
    const struct sg_device *gpu = &state->core->device[card];
    uint64_t busy = 0;
    uint64_t entries = state->map->header->physics.record_entries;
    if (gpu->open.serial && (!serial || gpu->open.serial == serial))
        busy += share_of(&gpu->open, since, until);
    for (uint64_t back = 1; back <= gpu->intervals && back < entries; back++) {
        const struct sg_interval *one = &sg_intervals_at(state->map, card)[(gpu->intervals - back) % entries];
        if (one->end_ns <= since)
            break;
        if (!serial || one->serial == serial)
            busy += share_of(one, since, until);
    }
    return until > since ? (unsigned)((busy * 100 + (until - since) / 2) / (until - since)) : 0;
}

static unsigned load_of(nvmlDevice_t device) {
    int forced = atomic_load(&sg_client.map.control->fault[device->card].busy_percent);
    if (forced >= 0)
        return (unsigned)forced;
    struct sg_state state = sg_begin();
    uint64_t now = state.core->now_ns;
    unsigned percent = nv_busy_percent(&state, device->card, 0, now > NV_SAMPLE_NS ? now - NV_SAMPLE_NS : 0, now);
    sg_commit(&state);
    return percent;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct nvml_utilization *utilization) {
    NV_CHECK(device, utilization);
    utilization->gpu = load_of(device);
    utilization->memory = utilization->gpu / 2;
    return NVML_SUCCESS;
}

static struct nvml_memory memory_of(nvmlDevice_t device) {
    struct sg_state state = sg_begin();
    double unused = sg_free_bytes(&state, device->card);
    sg_commit(&state);
    struct nvml_memory memory = {.total = nv_card(device)->memory_bytes, .free = unused > 0 ? (uint64_t)(unused + 0.5) : 0};
    memory.used = memory.total - memory.free;
    return memory;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, struct nvml_memory *memory) {
    NV_CHECK(device, memory);
    *memory = memory_of(device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, struct nvml_memory_v2 *memory) {
    NV_CHECK(device, memory);
    if (memory->version != VERSION_2_MEMORY)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    struct nvml_memory now = memory_of(device);
    *memory = (struct nvml_memory_v2){VERSION_2_MEMORY, now.total, 0, now.free, now.used};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, struct nvml_bar1 *bar1) {
    NV_CHECK(device, bar1);
    *bar1 = (struct nvml_bar1){256ull << 20, 254ull << 20, 2ull << 20};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, struct nvml_pci *pci) {
    NV_CHECK(device, pci);
    *pci = (struct nvml_pci){.bus = nv_card(device)->pci_bus, .pci_device_id = nv_card(device)->pci_device_id};
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus & 0xFFu);
    snprintf(pci->bus_id_legacy, sizeof pci->bus_id_legacy, "0000:%02X:00.0", pci->bus & 0xFFu);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, struct nvml_pci_v2 *pci) {
    NV_CHECK(device, pci);
    *pci = (struct nvml_pci_v2){.bus = nv_card(device)->pci_bus, .pci_device_id = nv_card(device)->pci_device_id};
    snprintf(pci->bus_id, sizeof pci->bus_id, "0000:%02X:00.0", pci->bus & 0xFFu);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, struct nvml_pci_v2 *pci) {
    return nvmlDeviceGetPciInfo_v2(device, pci);
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned words, unsigned long *nodes, unsigned scope) {
    NV_CHECK(device, nodes);
    if (words == 0 || scope > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(nodes, 0, words * sizeof *nodes);
    nodes[0] = 1ul << nv_card(device)->numa_node;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned words, unsigned long *cpus) {
    NV_CHECK(device, cpus);
    if (words == 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(cpus, 0, words * sizeof *cpus);
    cpus[0] = nv_card(device)->numa_node ? 2ul : 1ul;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    NV_CHECK(device, major);
    if (!minor)
        return NVML_ERROR_INVALID_ARGUMENT;
    *major = (int)nv_card(device)->capability_major;
    *minor = (int)nv_card(device)->capability_minor;
    return NVML_SUCCESS;
}

/* ---- heat and power follow the load; a fault can set the heat */

static unsigned temperature_of(nvmlDevice_t device) {
    int forced = atomic_load(&sg_client.map.control->fault[device->card].temperature);
    return forced >= 0 ? (unsigned)forced : nv_card(device)->idle_temperature + load_of(device) * 35 / 100;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned sensor, unsigned *temperature) {
    NV_CHECK(device, temperature);
    if (sensor != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    *temperature = temperature_of(device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, struct nvml_temperature *temperature) {
    NV_CHECK(device, temperature);
    if (temperature->version != VERSION_1_TEMPERATURE)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    temperature->temperature = (int)temperature_of(device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned which, unsigned *temperature) {
    NV_CHECK(device, temperature);
    if (which > 1)
        return NVML_ERROR_NOT_SUPPORTED;
    *temperature = which == 0 ? SHUTDOWN_TEMPERATURE : SLOWDOWN_TEMPERATURE;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *milliwatts) {
    NV_CHECK(device, milliwatts);
    unsigned limit = nv_card(device)->power_limit_mw;
    *milliwatts = limit / 7 + limit / 100 * load_of(device) * 8 / 10;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned *milliwatts) {
    NV_CHECK(device, milliwatts);
    *milliwatts = nv_card(device)->power_limit_mw;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *milliwatts) {
    return nvmlDeviceGetPowerManagementLimit(device, milliwatts);
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules) {
    NV_CHECK(device, millijoules);
    struct sg_state state = sg_begin();
    double idle = (double)state.core->now_ns / 7e9, busy = (double)state.core->device[device->card].busy_ns * 0.8e-9;
    sg_commit(&state);
    *millijoules = (unsigned long long)((double)nv_card(device)->power_limit_mw * (idle + busy));
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons) {
    NV_CHECK(device, reasons);
    *reasons = load_of(device) ? 0 : REASON_IDLE;
    if (temperature_of(device) >= SLOWDOWN_TEMPERATURE)
        *reasons |= REASON_HOT;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons) {
    return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, unsigned *state) {
    NV_CHECK(device, state);
    *state = load_of(device) ? 0 : 8;
    return NVML_SUCCESS;
}
