/* Events: a mark in a queue, and the moment the device passed it. */
#include <stdlib.h>
#include <string.h>

#include "driver/base/queue.h"
#include "driver/base/thread.h"
#include "driver/graphs/capture.h"
#include "driver/work/work.h"
#include "event.h"

#define BLOCKING_SYNC 1u
#define DISABLE_TIMING 2u
#define INTERPROCESS 4u
#define RECORD_EXTERNAL 1u

CUevent sg_new_event(CUcontext context, unsigned flags) {
    CUevent event = sg_new_handle(SG_EVENT_HANDLE, sizeof *event);
    if (event) {
        event->context = context;
        event->flags = flags;
    }
    return event;
}

CUresult cuEventCreate(CUevent *made, unsigned flags) {
    NEED_INIT();
    CUcontext context;
    CUresult result = sg_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!made || flags & ~(BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS) ||
        (flags & INTERPROCESS && !(flags & DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    *made = sg_new_event(context, flags);
    if (*made && flags & INTERPROCESS && !sg_share_event(*made)) {
        sg_free_handle(*made, SG_EVENT_HANDLE);
        *made = NULL;
    }
    return *made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuEventDestroy_v2(CUevent event) {
    NEED_INIT();
    if (!sg_is(event, SG_EVENT_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    sg_release_stamp(event->stamp);
    sg_forget_captured(event);
    sg_unshare_event(event);
    sg_free_handle(event, SG_EVENT_HANDLE);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
    return cuEventDestroy_v2(event);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream given, unsigned flags) {
    NEED_INIT();
    CUstream stream;
    CUresult result = sg_stream(given, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sg_is(event, SG_EVENT_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!sg_is_capturing(stream) || flags & RECORD_EXTERNAL)
        return sg_submit(stream, &(struct sg_work){.type = SG_NODE_EVENT_RECORD, .event = event});
    return sg_capture_event(stream, event);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    return cuEventRecordWithFlags(event, stream, 0);
}

static CUresult may_ask(CUevent event) {
    NEED_INIT();
    if (!sg_is(event, SG_EVENT_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    return sg_may_ask_event(event);
}

CUresult cuEventQuery(CUevent event) {
    CUresult result = may_ask(event);
    return result == CUDA_SUCCESS ? sg_query_event(event) : result;
}

CUresult cuEventSynchronize(CUevent event) {
    CUresult result = may_ask(event);
    return result == CUDA_SUCCESS ? sg_synchronize_event(event) : result;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    CUresult result = may_ask(start);
    if (result == CUDA_SUCCESS)
        result = may_ask(end);
    if (result != CUDA_SUCCESS)
        return result;
    if (!milliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (!start->recorded || !end->recorded || (start->flags | end->flags) & DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t from = sg_read_stamp(start->context, start->channel, start->sequence, start->stamp);
    uint64_t to = sg_read_stamp(end->context, end->channel, end->sequence, end->stamp);
    if (!from || !to)
        return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)(((double)to - (double)from) / 1e6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
    return cuEventElapsedTime(milliseconds, start, end);
}

CUresult cuStreamWaitEvent(CUstream given, CUevent event, unsigned flags) {
    NEED_INIT();
    CUstream stream;
    CUresult result = sg_stream(given, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sg_is(event, SG_EVENT_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~1u)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & 1u || (!sg_is_capturing(stream) && !event->capture_id))
        return sg_submit(stream, &(struct sg_work){.type = SG_NODE_EVENT_WAIT, .event = event});
    return sg_capture_wait(stream, event);
}
