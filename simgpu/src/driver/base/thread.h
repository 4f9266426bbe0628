/* The calling thread: its stack of contexts, its default streams, and the meaning of its arguments. */
#ifndef SIMGPU_THREAD_H
#define SIMGPU_THREAD_H

#include "init.h"
#include "objects.h"
#include "shared/process/client.h"

#define SG_STACK 64

struct sg_default_stream {
    CUcontext context;
    uint32_t serial;
    CUstream stream;
};

struct sg_thread {
    CUcontext *stack;
    uint32_t depth;
    bool per_thread_default; /* inside a _ptsz or _ptds entry point: stream 0 is the default stream of the thread */
    uint32_t capture_mode;
    uint64_t zero_launches;
    uint64_t random;
    CUcontext current;
    struct sg_default_stream own[8];
    uint64_t id;
};

extern __thread struct sg_thread sg_thread __attribute__((tls_model("initial-exec")));

/* The current context, or an error. */
CUresult sg_current(CUcontext *context);
/* Whether the context is still usable: not when it is destroyed, or its device is lost. */
CUresult sg_why_unusable(CUcontext context);
static inline CUresult sg_usable(CUcontext context) {
    bool fine = LIKELY(sg_is(context, SG_CONTEXT_HANDLE)) && !sg_client.forked &&
                !atomic_load_explicit(&context->gone, memory_order_relaxed) &&
                !atomic_load_explicit(&sg_client.map.control->fault[context->device].lost, memory_order_relaxed);
    return LIKELY(fine) ? CUDA_SUCCESS : sg_why_unusable(context);
}
/* The stream of a stream argument: 0, one of the two named defaults, or a handle. */
CUresult sg_default_stream_of(CUstream given, CUstream *stream);
static inline CUresult sg_stream(CUstream given, CUstream *stream) {
    if (UNLIKELY((uintptr_t)given <= 2))
        return sg_default_stream_of(given, stream);
    *stream = given;
    return LIKELY(sg_is(given, SG_STREAM_HANDLE)) ? sg_usable(given->context) : CUDA_ERROR_INVALID_HANDLE;
}

#endif
