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
};

struct samples {
    unsigned count;
    struct nvml_process_sample sample[SG_CONTEXTS];
};

static void add_sample(struct samples *samples, unsigned pid, unsigned percent, uint64_t end_us) {
    struct nvml_process_sample *one = samples->sample;
    while (one < samples->sample + samples->count && one->pid != pid)
        one++;
    if (one == samples->sample + samples->count)
        samples->sample[samples->count++] = (struct nvml_process_sample){.pid = pid, .timestamp_us = end_us};
    one->sm = one->sm + percent > 100 ? 100 : one->sm + percent;
}

static void add(struct list *list, unsigned pid, uint64_t bytes) {
    for (unsigned i = 0; i < list->count; i++) {
        if (list->process[i].pid == pid) {
            list->process[i].used_bytes += bytes;
            return;
        }
    }
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
        add(list, pid, bytes);
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

/* The end of the last whole sample of a sixth of a second: a card tells nothing of the one that is under way. */
static uint64_t last_sample(uint64_t now_ns) {
    return now_ns / NV_SAMPLE_NS * NV_SAMPLE_NS;
}

/* A context is not a process: what the contexts of a process did is summed, and is never more than all of the time. */
static void sum_samples(const struct sg_state *state, uint32_t card, uint64_t end, struct samples *samples) {
    samples->count = 0;
    for (int i = sg_next_used(state->core, -1); i >= 0; i = sg_next_used(state->core, i)) {
        const struct sg_context *context = &state->context[i];
        uint32_t pid = context->device == card ? sg_pid_here(state->map, context->owner) : 0;
        unsigned percent =
            pid ? nv_busy_percent(state, card, context->serial, end - NV_SAMPLE_NS, end) : 0;
        if (percent)
            add_sample(samples, pid, percent, end / 1000);
    }
}

/* nvml.h: "one utilization sample structure is returned per process running, that had some non-zero utilization during the
 * last sample period"; only samples newer than `since_us`; "on MIG-enabled GPUs … not currently supported". */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, struct nvml_process_sample *given, unsigned *count,
                                             unsigned long long since_us) {
    struct samples samples = {0};
    NV_CHECK(device, count);
    if (atomic_load(&sg_client.map.control->fault[device->card].mig))
        return NVML_ERROR_NOT_SUPPORTED;
    struct sg_state state = sg_begin();
    uint64_t end = last_sample(state.core->now_ns);
    if (end / 1000 > since_us && end >= NV_SAMPLE_NS)
        sum_samples(&state, device->card, end, &samples);
    sg_commit(&state);
    nvmlReturn_t result = samples.count ? fit(samples.count, count, given) : NVML_ERROR_NOT_FOUND;
    if (result == NVML_SUCCESS)
        memcpy(given, samples.sample, samples.count * sizeof *given);
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
