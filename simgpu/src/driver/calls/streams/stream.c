/* Streams: created, waited for, asked. Each takes one of a context's channels; more streams than channels share them, as
 * hardware queues are shared. */
#include <stdlib.h>
#include <string.h>

#include "driver/base/places.h"
#include "driver/base/queue.h"
#include "driver/base/thread.h"
#include "driver/graphs/capture.h"
#include "driver/work/stretch.h"

#define NON_BLOCKING 1u

CUresult cuStreamCreateWithPriority(CUstream *made, unsigned flags, int priority) {
    NEED_INIT();
    CUcontext context;
    CUresult result = sg_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!made || flags & ~NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    *made = sg_new_stream(context, flags, sg_clamp_priority(priority));
    return *made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamCreate(CUstream *made, unsigned flags) {
    return cuStreamCreateWithPriority(made, flags, 0);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    NEED_INIT();
    CUcontext context;
    CUresult result = sg_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (least)
        *least = SG_LEAST_PRIORITY;
    if (greatest)
        *greatest = SG_GREATEST_PRIORITY;
    return CUDA_SUCCESS;
}

static void unlink_stream(CUstream stream) {
    CUcontext context = stream->context;
    sg_lock(&context->lock);
    for (CUstream *at = &context->streams; *at; at = &(*at)->next) {
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    }
    sg_unlock(&context->lock);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
    NEED_INIT();
    if ((uintptr_t)stream <= 2 || !sg_is(stream, SG_STREAM_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    sg_leave_capture(stream);
    unlink_stream(stream);
    sg_free_handle(stream, SG_STREAM_HANDLE); /* what is queued runs on: the queue is the context's */
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
    return cuStreamDestroy_v2(stream);
}

CUresult cuStreamSynchronize(CUstream given) {
    NEED_INIT();
    CUstream stream;
    CUresult result = sg_stream(given, &stream);
    if (result == CUDA_SUCCESS)
        result = sg_may_wait_for(stream);
    return result == CUDA_SUCCESS ? sg_wait_stream(stream) : result;
}

CUresult cuStreamQuery(CUstream given) {
    NEED_INIT();
    CUstream stream;
    CUresult result = sg_stream(given, &stream);
    if (result == CUDA_SUCCESS)
        result = sg_may_wait_for(stream);
    if (result != CUDA_SUCCESS)
        return result;
    sg_spend(sg_client.settings.query_cost_ns);
    uint64_t last = atomic_load(&stream->last);
    if (last == 0 || sg_has_ended(stream->context, stream->channel, last - 1))
        return CUDA_SUCCESS;
    return CUDA_ERROR_NOT_READY;
}

static CUresult ask(CUstream given, const void *out, CUstream *stream) {
    NEED_INIT();
    CUresult result = sg_stream(given, stream);
    return result == CUDA_SUCCESS && !out ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuStreamGetPriority(CUstream given, int *priority) {
    CUstream stream;
    CUresult result = ask(given, priority, &stream);
    if (result == CUDA_SUCCESS)
        *priority = stream->priority;
    return result;
}

CUresult cuStreamGetFlags(CUstream given, unsigned *flags) {
    CUstream stream;
    CUresult result = ask(given, flags, &stream);
    if (result == CUDA_SUCCESS)
        *flags = stream->flags;
    return result;
}

CUresult cuStreamGetId(CUstream given, unsigned long long *id) {
    CUstream stream;
    CUresult result = ask(given, id, &stream);
    if (result == CUDA_SUCCESS)
        *id = stream->id;
    return result;
}

CUresult cuStreamGetDevice(CUstream given, CUdevice *device) {
    CUstream stream;
    CUresult result = ask(given, device, &stream);
    return result == CUDA_SUCCESS ? cuCtxGetDevice_v2(device, stream->context) : result;
}
