/* NVML: events. The fault tool appends them to a ring in the shared file; each set remembers how far it has read. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "nvml.h"

#define SUPPORTED 0xF18Full /* as a data centre card says */
#define NO_INSTANCE 0xFFFFFFFFu

struct nvmlEventSet_st {
    uint64_t magic, read;
    uint64_t wanted[SG_DEVICES];
};

#define SET_MAGIC 0x5345544556454E54ull

static bool is_set(nvmlEventSet_t set) {
    return set && set->magic == SET_MAGIC;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
    NV_CHECK(device, types);
    *types = SUPPORTED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    if (nv_ready() != NVML_SUCCESS)
        return NVML_ERROR_UNINITIALIZED;
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    *set = calloc(1, sizeof **set);
    if (!*set)
        return NVML_ERROR_MEMORY;
    (*set)->magic = SET_MAGIC;
    (*set)->read = atomic_load(&sg_client.map.control->events);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    if (!is_set(set))
        return NVML_ERROR_INVALID_ARGUMENT;
    set->magic = 0;
    free(set);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
    NV_CHECK(device, set);
    if (!is_set(set) || types & ~SUPPORTED)
        return is_set(set) ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    set->wanted[device->card] |= types;
    return NVML_SUCCESS;
}

static bool next_event(nvmlEventSet_t set, struct nvml_event *event) {
    const struct sg_control *control = sg_client.map.control;
    uint64_t written = atomic_load(&control->events);
    if (written - set->read > SG_EVENTS)
        set->read = written - SG_EVENTS;
    while (set->read < written) {
        const struct sg_fault_event *one = &control->event[set->read++ % SG_EVENTS];
        nvmlDevice_t device = one->device < SG_DEVICES ? nv_device_of_card(one->device) : NULL;
        if (!device || !(set->wanted[one->device] & one->type))
            continue;
        *event = (struct nvml_event){device, one->type, one->data, NO_INSTANCE, NO_INSTANCE};
        return true;
    }
    return false;
}

static void wait_word(uint32_t seen, uint64_t until_ns) {
    struct timespec deadline = {(time_t)(until_ns / 1000000000ull), (long)(until_ns % 1000000000ull)};
    syscall(SYS_futex, &sg_client.map.control->event_word, FUTEX_WAIT_BITSET, seen, &deadline, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, struct nvml_event *event, unsigned timeout_ms) {
    if (nv_ready() != NVML_SUCCESS)
        return NVML_ERROR_UNINITIALIZED;
    if (!is_set(set) || !event)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint64_t until = sg_monotonic_ns() + timeout_ms * 1000000ull;
    for (;;) {
        uint32_t seen = atomic_load(&sg_client.map.control->event_word);
        if (next_event(set, event))
            return NVML_SUCCESS;
        if (sg_monotonic_ns() >= until)
            return NVML_ERROR_TIMEOUT;
        wait_word(seen, until);
    }
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, struct nvml_event_v1 *event, unsigned timeout_ms) {
    struct nvml_event full;
    if (!event)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = nvmlEventSetWait_v2(set, &full, timeout_ms);
    if (result == NVML_SUCCESS)
        *event = (struct nvml_event_v1){full.device, full.type, full.data};
    return result;
}
