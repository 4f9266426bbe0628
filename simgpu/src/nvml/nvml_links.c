/* NVML: how a device is connected: PCIe, no NVLink, no fabric; and what an ordinary card does not support.
 *
 * The rule of nvml.h: the arguments are checked first, then the card says NVML_ERROR_NOT_SUPPORTED.  NCCL, XLA and PyTorch
 * ask these at their start; a name that the library does not export would stop them.
 */
#include "nvml.h"

#define MOST_LINKS 36u /* NVML_NVLINK_MAX_LINKS */
#define LANES 16u
#define SETTINGS_VERSION 0x01000014u

/* ---- NVLink and what hangs on it: the cards are connected by PCIe only */

static nvmlReturn_t no_link(nvmlDevice_t device, unsigned link, const void *out) {
    NV_CHECK(device, out);
    return link < MOST_LINKS ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *active) {
    return no_link(device, link, active);
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version) {
    return no_link(device, link, version);
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, unsigned capability, unsigned *result) {
    (void)capability;
    return no_link(device, link, result);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned link, struct nvml_pci_v2 *pci) {
    return no_link(device, link, pci);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, struct nvml_pci *pci) {
    return no_link(device, link, pci);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, unsigned *type) {
    return no_link(device, link, type);
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, void *info) {
    return no_link(device, 0, info);
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, void *info) {
    return no_link(device, 0, info);
}

nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, void *info) {
    return no_link(device, 0, info);
}

/* The call succeeds; each field says for itself that the card has no such value. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, struct nvml_field *values) {
    NV_CHECK(device, values);
    if (count < 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < count; i++)
        values[i].result = NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* ---- PCIe */

static unsigned generation(const struct sg_device_card *card) {
    return card->capability_major >= 9 ? 5 : card->capability_major == 8 ? 4 : 3;
}

#define FACT(name, expression)                                                                                         \
    nvmlReturn_t name(nvmlDevice_t device, unsigned *value) {                                                          \
        NV_CHECK(device, value);                                                                                       \
        *value = (expression);                                                                                         \
        return NVML_SUCCESS;                                                                                           \
    }

FACT(nvmlDeviceGetMaxPcieLinkGeneration, generation(nv_card(device)))
FACT(nvmlDeviceGetGpuMaxPcieLinkGeneration, generation(nv_card(device)))
FACT(nvmlDeviceGetCurrPcieLinkGeneration, generation(nv_card(device)))
FACT(nvmlDeviceGetMaxPcieLinkWidth, LANES)
FACT(nvmlDeviceGetCurrPcieLinkWidth, LANES)
FACT(nvmlDeviceGetPcieLinkMaxSpeed, generation(nv_card(device))) /* NVML_PCIE_LINK_MAX_SPEED_…: in order */
FACT(nvmlDeviceGetPcieSpeed, 1000u << generation(nv_card(device))) /* megabits a second, of a lane */

/* ---- what the model has no part for */

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned type, unsigned counter,
                                         unsigned long long *count) {
    (void)type, (void)counter;
    NV_CHECK(device, count);
    return NVML_ERROR_NOT_SUPPORTED; /* as a card says whose ECC is off */
}

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, unsigned *mode) {
    NV_CHECK(device, mode);
    *mode = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned *mode) {
    NV_CHECK(device, mode);
    *mode = 0; /* NVML_GPU_VIRTUALIZATION_MODE_NONE */
    return NVML_SUCCESS;
}

/* Confidential computing is off. NCCL ends if the question fails. */
nvmlReturn_t nvmlSystemGetConfComputeState(struct nvml_conf_compute *state) {
    if (nv_ready() != NVML_SUCCESS)
        return NVML_ERROR_UNINITIALIZED;
    if (!state)
        return NVML_ERROR_INVALID_ARGUMENT;
    *state = (struct nvml_conf_compute){0};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetConfComputeSettings(struct nvml_conf_compute_settings *settings) {
    if (nv_ready() != NVML_SUCCESS)
        return NVML_ERROR_UNINITIALIZED;
    if (!settings)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (settings->version != SETTINGS_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    *settings = (struct nvml_conf_compute_settings){.version = SETTINGS_VERSION};
    return NVML_SUCCESS;
}
