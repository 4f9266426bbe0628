/* Attributes of functions and kernels.
 *
 * The rule of cuda.h: what cuFuncSetAttribute set wins over what cuKernelSetAttribute set, whichever came later.
 * cuKernelGetAttribute always answers what was set on the kernel, for each device.
 */
#include "attributes.h"

#include "driver/base/init.h"
#include "library.h"
#include "shared/process/client.h"

enum {
    MAX_THREADS = 0,
    REGISTERS = 4,
    PTX_VERSION = 5,
    BINARY_VERSION = 6,
    DYNAMIC_SHARED = 8,
    CARVEOUT = 9,
    MUST_SET_CLUSTER = 10,
    CLUSTER_WIDTH = 11,
    NON_PORTABLE_CLUSTER = 14,
    SCHEDULING = 15,
    NODE_UPDATE = 16,
    SHARED_MODE = 17,
};

/* What may be set, and from where to where. What is not listed says how the code was compiled. */
static const struct {
    int least, most;
    bool settable;
} RANGES[SG_FUNCTION_ATTRIBUTES] = {
    [DYNAMIC_SHARED] = {0, 0, true}, /* up to the card's opt-in size */
    [CARVEOUT] = {-1, 100, true},
    [CLUSTER_WIDTH] = {0, 16, true},
    [CLUSTER_WIDTH + 1] = {0, 16, true},
    [CLUSTER_WIDTH + 2] = {0, 16, true},
    [NON_PORTABLE_CLUSTER] = {0, 1, true},
    [SCHEDULING] = {0, 2, true},
    [SHARED_MODE] = {0, 2, true},
};

static const struct sg_device_card *card(uint32_t device) {
    return &sg_client.map.header->card[device];
}

const struct sg_device_card *sg_card_of_function(CUfunction function) {
    return card(function->module->context->device);
}

static int default_of(CUfunction_attribute attribute, const struct sg_device_card *of) {
    switch (attribute) {
    case MAX_THREADS: return SG_BLOCK_THREADS;
    case REGISTERS: return 32;
    case PTX_VERSION:
    case BINARY_VERSION: return (int)(of->capability_major * 10 + of->capability_minor);
    case DYNAMIC_SHARED: return (int)SG_SHARED_PER_BLOCK;
    case CARVEOUT: return -1;
    case NODE_UPDATE: return 1;
    default: return 0;
    }
}

static int read(const struct sg_attributes *attributes, CUfunction_attribute attribute, int otherwise) {
    return attributes->set >> attribute & 1 ? attributes->value[attribute] : otherwise;
}

static bool fits(CUfunction_attribute attribute, int value, const struct sg_device_card *of) {
    if (attribute >= SG_FUNCTION_ATTRIBUTES || !RANGES[attribute].settable)
        return false;
    int most = attribute == DYNAMIC_SHARED ? (int)sg_limits_of(of)->shared_opt_in : RANGES[attribute].most;
    return value >= RANGES[attribute].least && value <= most;
}

static CUresult set(struct sg_attributes *attributes, CUfunction_attribute attribute, int value,
                    const struct sg_device_card *of) {
    if (!fits(attribute, value, of))
        return CUDA_ERROR_INVALID_VALUE;
    attributes->value[attribute] = value;
    attributes->set |= 1u << attribute;
    return CUDA_SUCCESS;
}

int sg_function_attribute(CUfunction function, CUfunction_attribute attribute) {
    int value = default_of(attribute, sg_card_of_function(function));
    if (function->kernel)
        value = read(sg_attributes_of_kernel(function->kernel, function->module->context->device), attribute, value);
    return read(&function->attributes, attribute, value);
}

unsigned sg_shared_limit(CUfunction function) {
    return (unsigned)sg_function_attribute(function, DYNAMIC_SHARED);
}

/* ---- of a function */

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    NEED_INIT();
    if (!sg_is(function, SG_FUNCTION_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!value || attribute >= SG_FUNCTION_ATTRIBUTES)
        return CUDA_ERROR_INVALID_VALUE;
    *value = sg_function_attribute(function, attribute);
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    NEED_INIT();
    if (!sg_is(function, SG_FUNCTION_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    return set(&function->attributes, attribute, value, sg_card_of_function(function));
}

/* ---- of a kernel, on a device */

static CUresult find(CUkernel kernel, CUdevice device, struct sg_attributes **attributes) {
    NEED_INIT();
    if (!sg_is(kernel, SG_KERNEL_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (device < 0 || (uint32_t)device >= sg_visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *attributes = sg_attributes_of_kernel(kernel, sg_visible[device]);
    return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
    struct sg_attributes *attributes;
    CUresult result = find(kernel, device, &attributes);
    if (result != CUDA_SUCCESS)
        return result;
    if (!value || attribute >= SG_FUNCTION_ATTRIBUTES)
        return CUDA_ERROR_INVALID_VALUE;
    *value = read(attributes, attribute, default_of(attribute, card(sg_visible[device])));
    return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
    struct sg_attributes *attributes;
    CUresult result = find(kernel, device, &attributes);
    return result == CUDA_SUCCESS ? set(attributes, attribute, value, card(sg_visible[device])) : result;
}
