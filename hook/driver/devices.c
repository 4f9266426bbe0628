/* The container's GPUs, by UUID.
 *
 * CUDA_VISIBLE_DEVICES may show them in any order and any number; only the UUID says which is which. */
#include "driver/devices.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/lookup.h"

#define MOST_DEVICES 64

static char uuids[NVSHARE_SHARED_MEMORY_MOST_GPUS][UUID_TEXT];
static atomic_int count;
static _Atomic signed char places[MOST_DEVICES]; /* 0: not asked yet; else 2 + place */
static _Atomic CUdevice ordinals[NVSHARE_SHARED_MEMORY_MOST_GPUS]; /* two threads may find the same one at once */

static const char *number_of(const char *uuid) { return strlen(uuid) > 4 ? uuid + 4 : uuid; }

/* The driver tells a MIG instance's number without its prefix; the environment may tell that it is one. */
static bool is_mig(const char *number) {
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"};
    char wanted[UUID_TEXT];
    snprintf(wanted, sizeof wanted, "MIG-%.40s", number);
    for (int i = 0; i < 2; i++) {
        const char *list = getenv(names[i]);
        if (list && strstr(list, wanted))
            return true;
    }
    return false;
}

static bool read_uuid(CUdevice device, char *into) {
    CUuuid uuid;
    bool is_told = DRIVER_HAS(cuDeviceGetUuid_v2) && driver.cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS;
    if (!is_told && (!DRIVER_HAS(cuDeviceGetUuid) || driver.cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS))
        return false;
    char number[UUID_TEXT] = "";
    for (int i = 0, at = 0; i < 16; i++)
        at += snprintf(number + at, sizeof number - (size_t)at, "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid.bytes[i]);
    snprintf(into, UUID_TEXT, "%s-%.40s", is_mig(number) ? "MIG" : "GPU", number);
    return true;
}

static bool uuid_by_driver(int index, char *uuid) {
    CUdevice device;
    return driver.cuDeviceGet(&device, index) == CUDA_SUCCESS && read_uuid(device, uuid);
}

static bool uuid_by_nvml(int index, char *uuid) {
    nvmlDevice_t device;
    return !driver.nvmlDeviceGetHandleByIndex_v2((unsigned)index, &device) && !driver.nvmlDeviceGetUUID(device, uuid, UUID_TEXT);
}

/* A program that only looks, as nvidia-smi does, never starts the driver: NVML knows the devices as well. */
static int count_visible(bool (**read)(int index, char *uuid)) {
    int count = 0;
    unsigned int by_nvml = 0;
    *read = uuid_by_driver;
    if (DRIVER_HAS(cuDeviceGetCount) && driver.cuDeviceGetCount(&count) == CUDA_SUCCESS)
        return count;
    *read = uuid_by_nvml;
    bool is_told = DRIVER_HAS(nvmlDeviceGetCount_v2) && DRIVER_HAS(nvmlDeviceGetHandleByIndex_v2) &&
                   DRIVER_HAS(nvmlDeviceGetUUID) && !driver.nvmlDeviceGetCount_v2(&by_nvml);
    return is_told ? (int)by_nvml : 0;
}

void devices_look_up(void) {
    bool (*ignored)(int index, char *uuid);
    count_visible(&ignored);
}

int devices_list_visible(char *into, size_t size) {
    bool (*read)(int index, char *uuid);
    size_t at = 0;
    into[0] = 0;
    for (int i = 0, count = count_visible(&read); i < count && i < MOST_DEVICES; i++) {
        char uuid[UUID_TEXT];
        if (read(i, uuid) && at < size)
            at += (size_t)snprintf(into + at, size - at, "%s%s", at ? "," : "", uuid);
    }
    return at > 0 && at < size;
}

int devices_count(void) { return atomic_load(&count); }

const char *devices_uuid(int place) { return uuids[place]; }

int devices_find(const char *uuid) {
    for (int i = 0; i < devices_count(); i++)
        if (!strcmp(number_of(uuids[i]), number_of(uuid)))
            return i;
    return -1;
}

/* The next of a list of UUIDs; the rest of it. */
static const char *next_uuid(const char *list, char uuid[UUID_TEXT]) {
    size_t length = strcspn(list, ",");
    snprintf(uuid, UUID_TEXT, "%.*s", (int)(length < UUID_TEXT - 1 ? length : UUID_TEXT - 1), list);
    return list + length + (list[length] == ',');
}

int devices_columns(const char *list, int columns[NVSHARE_SHARED_MEMORY_MOST_GPUS]) {
    int column = 0;
    for (int place = 0; place < NVSHARE_SHARED_MEMORY_MOST_GPUS; place++)
        columns[place] = -1;
    for (char uuid[UUID_TEXT]; *list; column++) {
        list = next_uuid(list, uuid);
        int place = devices_find(uuid);
        if (place >= 0)
            columns[place] = column;
    }
    return column;
}

static void forget_places(void) {
    for (int i = 0; i < MOST_DEVICES; i++)
        atomic_store(&places[i], 0);
}

int devices_adopt(const char *list) {
    while (*list) {
        char uuid[UUID_TEXT];
        list = next_uuid(list, uuid);
        int place = devices_count();
        if (*uuid && devices_find(uuid) < 0 && place < NVSHARE_SHARED_MEMORY_MOST_GPUS) {
            memcpy(uuids[place], uuid, sizeof uuid);
            atomic_store(&count, place + 1);
            forget_places(); /* a device asked about before was nobody's then */
        }
    }
    return devices_count();
}

int devices_place(CUdevice device) {
    if (device < 0 || device >= MOST_DEVICES)
        return -1;
    int known = atomic_load(&places[device]);
    if (known)
        return known - 2;
    char uuid[UUID_TEXT];
    int seen = devices_count(), place = read_uuid(device, uuid) ? devices_find(uuid) : -1;
    if (place >= 0)
        atomic_store(&ordinals[place], device);
    if (seen) /* else nobody has said yet whose it is */
        atomic_store(&places[device], (signed char)(place + 2));
    if (seen != devices_count())
        atomic_store(&places[device], 0);
    return place;
}

CUdevice devices_ordinal(int place) { return atomic_load(&ordinals[place]); }

void devices_forget(void) {
    atomic_store(&count, 0);
    forget_places();
}
