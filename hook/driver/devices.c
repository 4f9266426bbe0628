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
#define LARGEST_CARD (UINT64_C(1) << 48) /* its number has fewer digits than its place in the list */

static char uuids[NVSHARE_SHARED_MEMORY_MOST_GPUS][UUID_TEXT];
static atomic_int count;
static bool is_listed_for_good;
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

/* Reads the UUID and the size of a device; false without the UUID. */
typedef bool read_device(int index, char *uuid, uint64_t *bytes);

static bool read_by_driver(int index, char *uuid, uint64_t *bytes) {
    CUdevice device;
    size_t total = 0;
    if (driver.cuDeviceGet(&device, index) != CUDA_SUCCESS || !read_uuid(device, uuid))
        return false;
    bool is_told = DRIVER_HAS(cuDeviceTotalMem_v2) && driver.cuDeviceTotalMem_v2(&total, device) == CUDA_SUCCESS;
    *bytes = is_told ? total : 0;
    return true;
}

static bool read_by_nvml(int index, char *uuid, uint64_t *bytes) {
    nvmlDevice_t device;
    nvmlMemory_t memory;
    if (driver.nvmlDeviceGetHandleByIndex_v2((unsigned)index, &device) || driver.nvmlDeviceGetUUID(device, uuid, UUID_TEXT))
        return false;
    bool is_told = DRIVER_HAS(nvmlDeviceGetMemoryInfo) && !driver.nvmlDeviceGetMemoryInfo(device, &memory);
    *bytes = is_told ? memory.total : 0;
    return true;
}

/* A program that only looks, as nvidia-smi does, never starts the driver: NVML knows the devices as well. */
static int count_visible(read_device **read) {
    int count = 0;
    unsigned int by_nvml = 0;
    *read = read_by_driver;
    if (DRIVER_HAS(cuDeviceGetCount) && driver.cuDeviceGetCount(&count) == CUDA_SUCCESS)
        return count;
    *read = read_by_nvml;
    bool is_told = DRIVER_HAS(nvmlDeviceGetCount_v2) && DRIVER_HAS(nvmlDeviceGetHandleByIndex_v2) &&
                   DRIVER_HAS(nvmlDeviceGetUUID) && !driver.nvmlDeviceGetCount_v2(&by_nvml);
    return is_told ? (int)by_nvml : 0;
}

void devices_look_up(void) {
    read_device *ignored;
    count_visible(&ignored);
}

static bool list_visible(struct visible *into) {
    read_device *read;
    size_t at = 0, bytes_at = 0;
    uint64_t bytes;
    char uuid[UUID_TEXT];
    for (int i = 0, count = count_visible(&read); i < count && i < NVSHARE_SHARED_MEMORY_MOST_GPUS; i++) {
        if (!read(i, uuid, &bytes))
            continue;
        const char *before = at ? "," : "";
        at += (size_t)snprintf(into->uuids + at, sizeof into->uuids - at, "%s%s", before, uuid);
        bytes_at += (size_t)snprintf(into->bytes + bytes_at, sizeof into->bytes - bytes_at, "%s%llu", before,
                                     bytes < LARGEST_CARD ? (unsigned long long)bytes : 0);
    }
    is_listed_for_good = at && read == read_by_driver; /* NVML may show more than the driver will */
    return at > 0;
}

const struct visible *devices_list_visible(bool may_ask) {
    static struct visible visible;
    return is_listed_for_good || (may_ask && list_visible(&visible)) ? &visible : NULL;
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
    is_listed_for_good = false;
    forget_places();
}
