/* NVML: initialisation, devices and their handles, errors in words. */
#include "nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/file/visible.h"
#include "shared/process/locks.h"

static struct sg_mutex init_lock = SG_MUTEX(SG_RANK_INIT);
static uint32_t users, count;
static struct nvmlDevice_st devices[SG_DEVICES];

uint32_t nv_count(void) {
    return count;
}

nvmlDevice_t nv_device_of_card(uint32_t card) {
    for (uint32_t i = 0; i < count; i++)
        if (devices[i].card == card)
            return &devices[i];
    return NULL;
}

nvmlReturn_t nv_ready(void) {
    return users && !sg_client.forked ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nv_check(nvmlDevice_t device, const void *out) {
    if (nv_ready() != NVML_SUCCESS)
        return NVML_ERROR_UNINITIALIZED;
    if (!out || device < devices || device >= devices + count)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (atomic_load(&sg_client.map.control->fault[device->card].lost))
        return NVML_ERROR_GPU_IS_LOST;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    uint32_t visible[SG_DEVICES];
    (void)flags;
    sg_lock(&init_lock);
    if (sg_client.forked) {
        sg_forget_parent();
        users = 0;
    }
    bool attached = sg_attach();
    if (attached && users++ == 0) {
        count = sg_visible_devices(sg_client.map.header, visible, false);
        for (uint32_t i = 0; i < count; i++)
            devices[i] = (struct nvmlDevice_st){i, visible[i]};
    }
    sg_unlock(&init_lock);
    return attached ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}

nvmlReturn_t nvmlInit_v2(void) {
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void) {
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void) {
    sg_lock(&init_lock);
    nvmlReturn_t result = users ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    users -= users > 0;
    sg_unlock(&init_lock);
    return result;
}

static nvmlReturn_t copy_text(const char *text, char *into, unsigned length) {
    if (!into)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(into, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned length) {
    return nv_ready() ? NVML_ERROR_UNINITIALIZED : copy_text("580.65.06", text, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *text, unsigned length) {
    return nv_ready() ? NVML_ERROR_UNINITIALIZED : copy_text("13.580.65.06", text, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    const char *text = getenv("SIMGPU_DRIVER_VERSION");
    *version = text && atoi(text) > 0 ? atoi(text) : 13040;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return nvmlSystemGetCudaDriverVersion(version);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *number) {
    if (nv_ready() != NVML_SUCCESS)
        return NVML_ERROR_UNINITIALIZED;
    if (!number)
        return NVML_ERROR_INVALID_ARGUMENT;
    *number = count;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *number) {
    return nvmlDeviceGetCount_v2(number);
}

/* A lost device still has its handle: so a monitor can ask it and be told that it is lost. */
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    if (nv_ready() != NVML_SUCCESS)
        return NVML_ERROR_UNINITIALIZED;
    if (!device || index >= count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = &devices[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    char text[48];
    if (nv_ready() != NVML_SUCCESS)
        return NVML_ERROR_UNINITIALIZED;
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < count; i++) {
        sg_format_uuid(nv_card(&devices[i])->uuid, text);
        if (strcmp(text, uuid) == 0) {
            *device = &devices[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *text, nvmlDevice_t *device) {
    unsigned domain, bus;
    if (nv_ready() != NVML_SUCCESS)
        return NVML_ERROR_UNINITIALIZED;
    if (!text || !device || sscanf(text, "%x:%x:00.0", &domain, &bus) != 2)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < count; i++) {
        if (nv_card(&devices[i])->pci_bus == bus) {
            *device = &devices[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *text, nvmlDevice_t *device) {
    return nvmlDeviceGetHandleByPciBusId_v2(text, device);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device) {
    (void)serial, (void)device;
    return nv_ready() ? NVML_ERROR_UNINITIALIZED : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
    NV_CHECK(device, index);
    *index = device->index;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor) {
    NV_CHECK(device, minor);
    *minor = device->card;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    NV_CHECK(device, name);
    return copy_text(nv_card(device)->name, name, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    char text[48];
    NV_CHECK(device, uuid);
    sg_format_uuid(nv_card(device)->uuid, text);
    return copy_text(text, uuid, length);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned length) {
    char text[48];
    NV_CHECK(device, serial);
    snprintf(text, sizeof text, "0%012u", nv_card(device)->pci_bus);
    return copy_text(text, serial, length);
}

const char *nvmlErrorString(nvmlReturn_t result) {
    static const struct {
        nvmlReturn_t result;
        const char *text;
    } texts[] = {
        {NVML_SUCCESS, "Success"},
        {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
        {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
        {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
        {NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
        {NVML_ERROR_NOT_FOUND, "Not Found"},
        {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
        {NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
        {NVML_ERROR_TIMEOUT, "Timeout"},
        {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
        {NVML_ERROR_MEMORY, "Insufficient Memory"},
        {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].result == result)
            return texts[i].text;
    return "Unknown Error";
}
