/* Events: a mark in a queue, and an operation that waits for one. */
#include "work.h"

#include "driver/base/queue.h"
#include "driver/graphs/capture.h"

CUresult sg_record_event(CUevent event, CUstream stream) {
    struct sg_stamp *stamp = sg_new_stamp();
    if (!stamp)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct sg_op op = {.kind = SG_MARK};
    uint64_t sequence;
    CUresult result = sg_push(stream, &op, &sequence, stamp);
    if (result != CUDA_SUCCESS) {
        sg_release_stamp(stamp);
        return result;
    }
    sg_release_stamp(event->stamp);
    sg_forget_captured(event);
    event->stamp = stamp;
    event->channel = stream->channel;
    event->sequence = sequence;
    event->recorded = true;
    return CUDA_SUCCESS;
}

CUresult sg_wait_event(CUstream stream, CUevent event) {
    if (!event->recorded || !sg_is(event->context, SG_CONTEXT_HANDLE))
        return CUDA_SUCCESS;
    const struct sg_op op = {
        .kind = SG_WAIT,
        .target = event->context->index | (uint64_t)event->channel << 16 | (uint64_t)event->context->serial << 32,
        .sequence = event->sequence,
    };
    return sg_push(stream, &op, NULL, NULL);
}
