/* The calling thread: its stack of contexts, its default streams, and who may be waited for. */
#include "thread.h"

#include <stdlib.h>
#include <string.h>

#include "places.h"

__thread struct sg_thread sg_thread __attribute__((tls_model("initial-exec")));

CUresult sg_current(CUcontext *context) {
    *context = sg_thread.current;
    if (!*context)
        return CUDA_ERROR_INVALID_CONTEXT;
    return sg_usable(*context);
}

CUresult sg_why_unusable(CUcontext context) {
    if (UNLIKELY(sg_client.forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (UNLIKELY(!sg_is(context, SG_CONTEXT_HANDLE)))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (UNLIKELY(atomic_load_explicit(&context->gone, memory_order_relaxed)))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (UNLIKELY(atomic_load_explicit(&sg_client.map.control->fault[context->device].lost, memory_order_relaxed)))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    return CUDA_SUCCESS;
}

static CUstream own_stream(CUcontext context) {
    static _Atomic uint32_t next_evicted;
    struct sg_default_stream *own = NULL;
    for (uint32_t i = 0; i < COUNT(sg_thread.own); i++) {
        if (sg_thread.own[i].context == context && sg_thread.own[i].serial == context->serial)
            return sg_thread.own[i].stream;
        if (!own && !sg_thread.own[i].context)
            own = &sg_thread.own[i];
    }
    if (!own)
        own = &sg_thread.own[atomic_fetch_add(&next_evicted, 1) % COUNT(sg_thread.own)];
    CUstream made = sg_new_stream(context, 0, 0);
    if (made)
        *own = (struct sg_default_stream){context, context->serial, made};
    return made;
}

CUresult sg_default_stream_of(CUstream given, CUstream *stream) {
    CUcontext context;
    CUresult result = sg_current(&context);
    if (UNLIKELY(result != CUDA_SUCCESS))
        return result;
    bool per_thread = (uintptr_t)given == 2 || (!given && sg_thread.per_thread_default);
    *stream = UNLIKELY(per_thread) ? own_stream(context) : context->legacy;
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
