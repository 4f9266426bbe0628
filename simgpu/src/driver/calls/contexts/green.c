/* Green contexts: a part of a device's multiprocessors, and streams that use it.
 *
 * The rule of cuda.h: a green context retains its device's primary context, and its streams are non-blocking streams of
 * that.  The split of the multiprocessors is kept and answered; kernels are not slower for it.
 */
#include <string.h>

#include "context.h"
#include "driver/base/places.h"
#include "driver/base/thread.h"

#define MULTIPROCESSORS 1u /* the type of a resource */
#define DEFAULT_STREAM 1u
#define NON_BLOCKING 1u
#define IGNORE_COSCHEDULING 1u

struct CUdevResourceDesc_st {
    struct sg_handle handle;
    uint32_t card, multiprocessors;
};

struct CUgreenCtx_st {
    struct sg_handle handle;
    CUcontext primary;
    CUdevice device;
    uint32_t card, multiprocessors;
    uint64_t id;
};

/* ---- resources */

static void fill(CUdevResource *resource, uint32_t card, uint32_t multiprocessors) {
    memset(resource, 0, sizeof *resource);
    resource->type = MULTIPROCESSORS;
    resource->smCount = multiprocessors;
    memcpy(resource->reserved, &card, sizeof card);
}

static uint32_t card_of(const CUdevResource *resource) {
    uint32_t card;
    memcpy(&card, resource->reserved, sizeof card);
    return card;
}

static uint32_t all_of(uint32_t card) {
    return sg_client.map.header->card[card].multiprocessors;
}

static CUresult check(const void *out, CUdevResourceType type) {
    NEED_INIT();
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    return type == MULTIPROCESSORS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type) {
    CUresult result = check(resource, type);
    if (result != CUDA_SUCCESS)
        return result;
    if (device < 0 || (uint32_t)device >= sg_visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    fill(resource, sg_visible[device], all_of(sg_visible[device]));
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevResource(CUcontext context, CUdevResource *resource, CUdevResourceType type) {
    CUresult result = check(resource, type);
    if (result == CUDA_SUCCESS)
        result = sg_usable(context);
    if (result == CUDA_SUCCESS)
        fill(resource, context->device, all_of(context->device));
    return result;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource, CUdevResourceType type) {
    CUresult result = check(resource, type);
    if (result != CUDA_SUCCESS || !sg_is(green, SG_GREEN_HANDLE))
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_CONTEXT;
    fill(resource, green->card, green->multiprocessors);
    return CUDA_SUCCESS;
}

/* cuda.h: the least number of multiprocessors in a group, of which all groups are multiples */
static uint32_t granularity(uint32_t card, unsigned flags) {
    uint32_t major = sg_client.map.header->card[card].capability_major;
    if (major < 7)
        return 1;
    return major >= 9 && !(flags & IGNORE_COSCHEDULING) ? 8 : 2;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *groups, unsigned *count, const CUdevResource *input,
                                     CUdevResource *rest, unsigned flags, unsigned least) {
    CUresult result = check(count, input ? input->type : MULTIPROCESSORS);
    if (result != CUDA_SUCCESS)
        return result;
    if (!input || flags > 3 || card_of(input) >= sg_client.map.header->devices || least > input->smCount)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t unit = granularity(card_of(input), flags), each = (least + unit - 1) / unit * unit;
    each = each ? each : unit;
    uint32_t most = input->smCount / each, made = groups && *count < most ? *count : most;
    for (uint32_t i = 0; groups && i < made; i++)
        fill(&groups[i], card_of(input), each);
    if (rest)
        fill(rest, card_of(input), input->smCount - made * each);
    *count = made;
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *made, CUdevResource *resources, unsigned count) {
    CUresult result = check(made, resources && count ? resources->type : MULTIPROCESSORS);
    if (result != CUDA_SUCCESS || !resources || !count)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    uint32_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        if (resources[i].type != MULTIPROCESSORS || card_of(&resources[i]) != card_of(resources))
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        sum += resources[i].smCount;
    }
    CUdevResourceDesc description = sg_new_handle(SG_DESCRIPTION_HANDLE, sizeof *description);
    if (!description)
        return CUDA_ERROR_OUT_OF_MEMORY;
    description->card = card_of(resources);
    description->multiprocessors = sum;
    *made = description;
    return CUDA_SUCCESS;
}

/* ---- contexts */

CUresult cuGreenCtxCreate(CUgreenCtx *made, CUdevResourceDesc description, CUdevice device, unsigned flags) {
    static _Atomic uint64_t next_id = 1;
    NEED_INIT();
    if (device < 0 || (uint32_t)device >= sg_visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!made || flags > DEFAULT_STREAM || !sg_is(description, SG_DESCRIPTION_HANDLE) ||
        description->card != sg_visible[device])
        return CUDA_ERROR_INVALID_VALUE;
    CUgreenCtx green = sg_new_handle(SG_GREEN_HANDLE, sizeof *green);
    if (!green)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = cuDevicePrimaryCtxRetain(&green->primary, device);
    if (result != CUDA_SUCCESS) {
        sg_free_handle(green, SG_GREEN_HANDLE);
        return result;
    }
    green->device = device;
    green->card = description->card;
    green->multiprocessors = description->multiprocessors;
    green->id = atomic_fetch_add(&next_id, 1);
    *made = green;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green) {
    NEED_INIT();
    if (!sg_is(green, SG_GREEN_HANDLE))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUdevice device = green->device;
    sg_free_handle(green, SG_GREEN_HANDLE);
    return cuDevicePrimaryCtxRelease_v2(device);
}

CUresult cuGreenCtxGetId(CUgreenCtx green, unsigned long long *id) {
    NEED_INIT();
    if (!id || !sg_is(green, SG_GREEN_HANDLE))
        return id ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
    *id = green->id;
    return CUDA_SUCCESS;
}

/* The primary context: streams that are made while it is current are plain ones here. */
CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green) {
    NEED_INIT();
    if (!context || !sg_is(green, SG_GREEN_HANDLE))
        return context ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
    *context = green->primary;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream *made, CUgreenCtx green, unsigned flags, int priority) {
    NEED_INIT();
    if (!made || flags != NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sg_is(green, SG_GREEN_HANDLE))
        return CUDA_ERROR_INVALID_CONTEXT;
    *made = sg_new_stream(green->primary, flags, sg_clamp_priority(priority));
    if (!*made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*made)->green = green;
    return CUDA_SUCCESS;
}

/* ---- which context a stream is of */

static CUresult ask(CUstream given, const void *out, CUstream *stream) {
    NEED_INIT();
    CUresult result = sg_stream(given, stream);
    return result == CUDA_SUCCESS && !out ? CUDA_ERROR_INVALID_VALUE : result;
}

/* cuda.h of CUDA 12: "will return CUDA_ERROR_NOT_SUPPORTED for streams created via cuGreenCtxStreamCreate" */
CUresult cuStreamGetCtx(CUstream given, CUcontext *context) {
    CUstream stream;
    CUresult result = ask(given, context, &stream);
    if (result == CUDA_SUCCESS && stream->green)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS)
        *context = stream->context;
    return result;
}

CUresult cuStreamGetCtx_v2(CUstream given, CUcontext *context, CUgreenCtx *green) {
    CUstream stream;
    CUresult result = ask(given, context, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    *context = stream->context;
    if (green)
        *green = stream->green;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetGreenCtx(CUstream given, CUgreenCtx *green) {
    CUstream stream;
    CUresult result = ask(given, green, &stream);
    if (result == CUDA_SUCCESS)
        *green = stream->green;
    return result;
}
