/* NVML: who uses a device. Process ids are the caller's: whom its process namespace does not see is left out. */
#include <stdio.h>
#include <string.h>

#include "nvml.h"
#include "shared/devices/paging.h"
#include "shared/file/slots.h"
#include "shared/process/transaction.h"

#define NO_INSTANCE 0xFFFFFFFFu

struct list {
    unsigned count;
    struct nvml_process process[SG_CONTEXTS];
    uint32_t serial[SG_CONTEXTS];
};

static void add(struct list *list, unsigned pid, uint64_t bytes, uint32_t serial) {
    for (unsigned i = 0; i < list->count; i++) {
        if (list->process[i].pid == pid) {
            list->process[i].used_bytes += bytes;
            return;
        }
    }
    list->serial[list->count] = serial;
    list->process[list->count++] = (struct nvml_process){pid, bytes, NO_INSTANCE, NO_INSTANCE};
}

static void collect(struct sg_state *state, uint32_t card, struct list *list) {
    list->count = 0;
    for (int i = sg_next_used(state->core, -1); i >= 0; i = sg_next_used(state->core, i)) {
        const struct sg_context *context = &state->context[i];
        uint32_t pid = context->device == card ? sg_pid_here(state->map, context->owner) : 0;
        if (!pid)
            continue;
        uint64_t bytes = context->plain_bytes + (uint64_t)sg_resident(context) +
                         state->map->header->physics.overhead_bytes;
        add(list, pid, bytes, context->serial);
    }
}

static void list_processes(nvmlDevice_t device, struct list *list) {
    struct sg_state state = sg_begin();
    collect(&state, device->card, list);
    sg_commit(&state);
}

static nvmlReturn_t fit(unsigned have, unsigned *room, const void *into) {
    unsigned given = *room;
    *room = have;
    if (have > given || (have && !into))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                     struct nvml_process *processes) {
    struct list list;
    NV_CHECK(device, count);
    list_processes(device, &list);
    nvmlReturn_t result = fit(list.count, count, processes);
    if (result == NVML_SUCCESS && list.count)
        memcpy(processes, list.process, list.count * sizeof *processes);
    return result;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count,
                                                     struct nvml_process *processes) {
    return nvmlDeviceGetComputeRunningProcesses_v3(device, count, processes);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count,
                                                  struct nvml_process_v1 *processes) {
    struct list list;
    NV_CHECK(device, count);
    list_processes(device, &list);
    nvmlReturn_t result = fit(list.count, count, processes);
    for (unsigned i = 0; result == NVML_SUCCESS && i < list.count; i++)
        processes[i] = (struct nvml_process_v1){list.process[i].pid, list.process[i].used_bytes};
    return result;
}

static nvmlReturn_t nobody(nvmlDevice_t device, unsigned *count) {
    NV_CHECK(device, count);
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                      struct nvml_process *processes) {
    (void)processes;
    return nobody(device, count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                        struct nvml_process *processes) {
    (void)processes;
    return nobody(device, count);
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, struct nvml_process_sample *samples, unsigned *count,
                                             unsigned long long since_us) {
    struct list list;
    (void)since_us;
    NV_CHECK(device, count);
    struct sg_state state = sg_begin();
    collect(&state, device->card, &list);
    nvmlReturn_t result = list.count ? fit(list.count, count, samples) : NVML_ERROR_NOT_FOUND;
    for (unsigned i = 0; result == NVML_SUCCESS && i < list.count; i++)
        samples[i] = (struct nvml_process_sample){
            .pid = list.process[i].pid,
            .timestamp_us = state.core->now_ns / 1000,
            .sm = nv_busy_percent(&state, device->card, list.serial[i]),
        };
    sg_commit(&state);
    return result;
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length) {
    char path[32];
    if (nv_ready() != NVML_SUCCESS)
        return NVML_ERROR_UNINITIALIZED;
    if (!name || !length)
        return NVML_ERROR_INVALID_ARGUMENT;
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return NVML_ERROR_NOT_FOUND;
    bool read = fgets(name, (int)length, file) != NULL;
    fclose(file);
    if (read)
        name[strcspn(name, "\n")] = '\0';
    return read ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
