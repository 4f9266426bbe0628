/* Contexts, as the driver knows them.
 *
 * The rule: the driver is asked each time, and the thread's current context is afterwards what it was before. */
#include "driver/contexts.h"

#include "driver/devices.h"
#include "driver/lookup.h"

#define NO_CONTEXT (-2)

static __thread CUcontext gone;

bool context_push(CUcontext context) {
    CUcontext current = NULL;
    if (driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context)
        return false;
    return driver.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

void context_pop(bool was_pushed) {
    CUcontext ignored;
    if (was_pushed)
        driver.cuCtxPopCurrent_v2(&ignored);
}

void context_set_gone(CUcontext context) { gone = context; }

/* A context that has ended cannot be made current; a primary one stays current after its end, but has no device. */
bool context_is_alive(CUcontext context) {
    CUcontext current = NULL;
    CUdevice device;
    if (context == gone)
        return false;
    bool is_current = driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context;
    bool was_pushed = !is_current && driver.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
    bool is_alive = (is_current || was_pushed) && driver.cuCtxGetDevice(&device) == CUDA_SUCCESS;
    context_pop(was_pushed);
    return is_alive;
}

bool context_is_alive_still(struct asked_contexts *asked, CUcontext context) {
    const unsigned room = sizeof asked->contexts / sizeof *asked->contexts;
    for (unsigned i = 0; i < room && i < asked->count; i++)
        if (asked->contexts[i] == context)
            return asked->are_alive[i];
    unsigned at = asked->count++ % room;
    asked->contexts[at] = context;
    return asked->are_alive[at] = context_is_alive(context);
}

bool primary_is_active(CUdevice device) {
    unsigned int flags;
    int is_active = 0;
    return DRIVER_HAS(cuDevicePrimaryCtxGetState) &&
           driver.cuDevicePrimaryCtxGetState(device, &flags, &is_active) == CUDA_SUCCESS && is_active;
}

int locate_device(CUdevice device) { return devices_place(device); }

int locate_current(void) {
    CUdevice device;
    return driver.cuCtxGetDevice(&device) == CUDA_SUCCESS ? locate_device(device) : NO_CONTEXT;
}

/* The older question has no answer for the streams of a green context; the newer one names the context of their device. */
static bool ask_context(CUstream stream, CUcontext *context) {
    CUgreenCtx green;
    if (DRIVER_HAS(cuStreamGetCtx_v2) && driver.cuStreamGetCtx_v2(stream, context, &green) == CUDA_SUCCESS)
        return *context;
    return DRIVER_HAS(cuStreamGetCtx) && driver.cuStreamGetCtx(stream, context) == CUDA_SUCCESS && *context;
}

CUcontext context_of(CUstream stream) {
    CUcontext context = NULL;
    bool is_told = !is_default_stream(stream) && ask_context(stream, &context);
    return is_told || driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : NULL;
}

int locate(CUstream stream, CUcontext *context) {
    *context = context_of(stream);
    if (!*context)
        return NO_CONTEXT;
    bool was_pushed = context_push(*context);
    int place = locate_current();
    context_pop(was_pushed);
    return place;
}
