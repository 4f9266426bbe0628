/* Contexts: made, destroyed, current per thread. The primary one of each device is counted. */
#include "context.h"

#include <stdlib.h>
#include <string.h>

#include "driver/allocations/pools.h"
#include "driver/base/places.h"
#include "driver/base/thread.h"
#include "driver/graphs/capture.h"
#include "shared/process/locks.h"

struct primary {
    CUcontext context;
    uint32_t references;
    unsigned flags;
};

static struct sg_mutex contexts_lock = SG_MUTEX(SG_RANK_CONTEXTS);
static CUcontext contexts;
static struct primary primaries[SG_DEVICES];
static _Atomic uint64_t next_id = 1;

#define VALID_FLAGS 0xFFu

static void leave_all(void) {
    for (CUcontext context = contexts; context; context = context->next)
        if (!atomic_load(&context->gone) && !sg_client.forked && !sg_remove_context_at_exit(context))
            return;
}

CUcontext sg_context_on(uint32_t device) {
    sg_lock(&contexts_lock);
    CUcontext context = contexts;
    while (context && context->device != device)
        context = context->next;
    sg_unlock(&contexts_lock);
    return context;
}

static CUcontext make(uint32_t device, unsigned flags, bool primary) {
    CUcontext context = sg_new_handle(SG_CONTEXT_HANDLE, sizeof *context);
    if (!context)
        return NULL;
    context->device = device;
    context->flags = flags;
    context->primary = primary;
    context->id = atomic_fetch_add(&next_id, 1);
    context->api_version = 3020;
    context->lock = (struct sg_mutex)SG_MUTEX(SG_RANK_STREAMS);
    for (uint32_t channel = 0; channel < SG_CHANNELS; channel++)
        context->queue[channel].lock = (struct sg_mutex)SG_MUTEX(SG_RANK_QUEUE);
    return context;
}

static CUresult new_context(CUcontext *made, uint32_t device, unsigned flags, bool primary) {
    static bool leaves;
    if (atomic_load(&sg_client.map.control->fault[device].lost))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    CUcontext context = make(device, flags, primary);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = sg_add_context(context);
    if (result != CUDA_SUCCESS) {
        sg_free_handle(context, SG_CONTEXT_HANDLE);
        return result;
    }
    context->legacy = sg_new_stream(context, 0, 0);
    sg_lock(&contexts_lock);
    context->next = contexts;
    contexts = context;
    if (!leaves)
        atexit(leave_all);
    leaves = true;
    sg_unlock(&contexts_lock);
    *made = context;
    return CUDA_SUCCESS;
}

static void unlink_context(CUcontext context) {
    sg_lock(&contexts_lock);
    for (CUcontext *at = &contexts; *at; at = &(*at)->next) {
        if (*at == context) {
            *at = context->next;
            break;
        }
    }
    sg_unlock(&contexts_lock);
}

static void destroy_context(CUcontext context) {
    /* the queue's locks keep a launching thread of ours from writing into a place that another process has by then */
    for (uint32_t channel = 0; channel < SG_CHANNELS; channel++)
        sg_lock(&context->queue[channel].lock);
    atomic_store(&context->gone, true);
    for (uint32_t channel = 0; channel < SG_CHANNELS; channel++)
        sg_unlock(&context->queue[channel].lock);
    sg_forget_blocks(context, sg_pool_lose);
    sg_remove_context(context);
    unlink_context(context);
    sg_free_handle(context, SG_CONTEXT_HANDLE);
}

/* ---- the thread's stack */

static void refresh(void) {
    sg_thread.current = sg_thread.depth ? sg_thread.stack[sg_thread.depth - 1] : NULL;
}

static bool push(CUcontext context) {
    if (!sg_thread.stack)
        sg_thread.stack = calloc(SG_STACK, sizeof *sg_thread.stack);
    if (!sg_thread.stack || sg_thread.depth == SG_STACK)
        return false;
    sg_thread.stack[sg_thread.depth++] = context;
    refresh();
    return true;
}

static CUcontext pop(void) {
    if (sg_thread.depth == 0)
        return NULL;
    CUcontext top = sg_thread.stack[--sg_thread.depth];
    refresh();
    return top;
}

/* Memory of contexts stays memory of contexts: without a kind it is one that was destroyed. */
static CUresult not_a_context(CUcontext context, const char *what) {
    if (context && sg_is(context, SG_NO_HANDLE))
        sg_misuse(what);
    return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    NEED_INIT();
    if (!sg_is(context, SG_CONTEXT_HANDLE))
        return not_a_context(context, "cuCtxPushCurrent of a context that was destroyed");
    return push(context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxPopCurrent_v2(CUcontext *popped) {
    NEED_INIT();
    CUcontext top = pop();
    if (!top)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (popped)
        *popped = top;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
    NEED_INIT();
    if (context && !sg_is(context, SG_CONTEXT_HANDLE))
        return not_a_context(context, "cuCtxSetCurrent of a context that was destroyed");
    if (sg_thread.depth)
        pop();
    return !context || push(context) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    NEED_INIT();
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    *context = sg_thread.current;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    return cuCtxGetDevice_v2(device, NULL);
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context) {
    NEED_INIT();
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context)
        context = sg_thread.current;
    if (!sg_is(context, SG_CONTEXT_HANDLE))
        return CUDA_ERROR_INVALID_CONTEXT;
    for (uint32_t i = 0; i < sg_visible_count; i++)
        if (sg_visible[i] == context->device)
            *device = (CUdevice)i;
    return CUDA_SUCCESS;
}

/* ---- created contexts */

static CUresult create(CUcontext *made, unsigned flags, CUdevice device) {
    NEED_INIT();
    if (!made || flags & ~VALID_FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || (uint32_t)device >= sg_visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = new_context(made, sg_visible[device], flags, false);
    if (result == CUDA_SUCCESS)
        push(*made);
    return result;
}

CUresult cuCtxCreate_v2(CUcontext *made, unsigned flags, CUdevice device) {
    return create(made, flags, device);
}

CUresult cuCtxCreate(CUcontext *made, unsigned flags, CUdevice device) {
    return create(made, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
    NEED_INIT();
    if (!sg_is(context, SG_CONTEXT_HANDLE) || context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (sg_thread.current == context)
        pop();
    destroy_context(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext context) {
    return cuCtxDestroy_v2(context);
}

CUresult cuCtxSynchronize(void) {
    NEED_INIT();
    CUcontext context;
    CUresult result = sg_current(&context);
    return result == CUDA_SUCCESS ? sg_synchronize_context(context) : result;
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
    NEED_INIT();
    return context ? sg_synchronize_context(context) : cuCtxSynchronize();
}

/* ---- the primary context */

static CUresult find_primary(CUdevice device, struct primary **primary) {
    NEED_INIT();
    if (device < 0 || (uint32_t)device >= sg_visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *primary = &primaries[sg_visible[device]];
    return CUDA_SUCCESS;
}

static struct sg_mutex primaries_lock = SG_MUTEX(SG_RANK_PRIMARIES);

static CUresult retain(struct primary *primary, uint32_t device) {
    if (!primary->context) {
        CUresult result = new_context(&primary->context, device, primary->flags, true);
        if (result != CUDA_SUCCESS)
            return result;
    }
    primary->references++;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    struct primary *primary = NULL;
    CUresult result = find_primary(device, &primary);
    if (result != CUDA_SUCCESS)
        return result;
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock(&primaries_lock);
    result = retain(primary, sg_visible[device]);
    if (result == CUDA_SUCCESS)
        *context = primary->context;
    sg_unlock(&primaries_lock);
    return result;
}

static CUresult end_primary(CUdevice device, bool reset) {
    struct primary *primary = NULL;
    CUresult result = find_primary(device, &primary);
    if (result != CUDA_SUCCESS)
        return result;
    sg_lock(&primaries_lock);
    if (primary->references == 0 && !reset)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (primary->context && (reset || --primary->references == 0)) {
        destroy_context(primary->context);
        *primary = (struct primary){.flags = reset ? 0 : primary->flags};
    }
    sg_unlock(&primaries_lock);
    return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    return end_primary(device, false);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    return end_primary(device, false);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    return end_primary(device, true);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
    return end_primary(device, true);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    struct primary *primary = NULL;
    CUresult result = find_primary(device, &primary);
    if (result != CUDA_SUCCESS)
        return result;
    if (flags & ~VALID_FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock(&primaries_lock);
    primary->flags = flags;
    if (primary->context)
        primary->context->flags = flags;
    sg_unlock(&primaries_lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    struct primary *primary = NULL;
    CUresult result = find_primary(device, &primary);
    if (result != CUDA_SUCCESS)
        return result;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock(&primaries_lock);
    *flags = primary->flags;
    *active = primary->context != NULL;
    sg_unlock(&primaries_lock);
    return CUDA_SUCCESS;
}
