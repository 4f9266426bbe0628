/* Work outside of a capture: its effect, and the time it takes on the stream.
 *
 * Bytes move when the work is submitted, not when the device comes to it: kernels compute nothing here, so a program
 * sees a difference only if it looks before it synchronises.
 */
#include "work.h"

#include <stdlib.h>

#include "driver/allocations/bytes.h"
#include "driver/allocations/pools.h"
#include "driver/base/queue.h"
#include "driver/graphs/capture.h"
#include "shared/process/client.h"
#include "stretch.h"

static CUresult take_memory(CUstream stream, const struct sg_memory_work *memory) {
    struct sg_block *block = sg_find_block(memory->pointer);
    if (!block || block->charged)
        return CUDA_SUCCESS;
    uint64_t charged = sg_round_up(block->bytes, 512);
    CUresult result = sg_charge_plain(stream->context, charged);
    if (result == CUDA_SUCCESS)
        block->charged = charged;
    return result;
}

static CUresult give_back(const struct sg_memory_work *memory) {
    return sg_pool_give_back(memory->pointer);
}

static CUresult take_effect(CUstream stream, const struct sg_work *work) {
    switch (work->type) {
    case SG_NODE_COPY:
        return sg_copy_bytes(&work->copy);
    case SG_NODE_SET:
        return sg_set_bytes(&work->set);
    case SG_NODE_ALLOC:
        return take_memory(stream, &work->memory);
    case SG_NODE_FREE:
        return give_back(&work->memory);
    default:
        return CUDA_SUCCESS;
    }
}

#define COPY_LATENCY_NS 2000

static uint64_t length_of_work(const struct sg_work *work) {
    double rate = (double)sg_client.map.header->physics.copy_bytes_per_s;
    switch (work->type) {
    case SG_NODE_KERNEL:
        return work->kernel.length_ns;
    case SG_NODE_COPY:
        return COPY_LATENCY_NS + (uint64_t)((double)sg_copied_bytes(&work->copy) * 1e9 / rate);
    case SG_NODE_SET: /* at memory's speed, far above the bus */
        return COPY_LATENCY_NS +
               (uint64_t)((double)work->set.width * work->set.elementSize * (double)work->set.height * 1e9 / rate / 30);
    default:
        return 0;
    }
}

CUresult sg_occupy(CUstream stream, uint64_t length_ns) {
    const struct sg_op op = {.kind = SG_KERNEL, .length_ns = length_ns};
    return sg_push(stream, &op, NULL, NULL);
}

static CUresult prefetch(CUstream stream, const struct sg_memory_work *memory) {
    const struct sg_op op = {.kind = SG_FETCH, .target = memory->bytes};
    if (!memory->to_host)
        return sg_push(stream, &op, NULL, NULL);
    sg_send_managed_out(stream->context, memory->bytes);
    return CUDA_SUCCESS;
}

static CUresult perform(CUstream stream, const struct sg_work *work);

static CUresult perform_nodes(CUstream stream, CUgraph graph) {
    CUgraphNode *order = sg_sort_graph(graph);
    CUresult result = order ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; result == CUDA_SUCCESS && order[i]; i++)
        if (!order[i]->disabled)
            result = perform(stream, &order[i]->work);
    free(order);
    return result;
}

static CUresult perform(CUstream stream, const struct sg_work *work) {
    CUresult result = take_effect(stream, work);
    if (result != CUDA_SUCCESS)
        return result;
    switch (work->type) {
    case SG_NODE_KERNEL:
        return sg_run_kernel(stream, &work->kernel);
    case SG_NODE_COPY:
    case SG_NODE_SET:
        return sg_occupy(stream, length_of_work(work));
    case SG_NODE_HOST:
        return sg_run_host(stream, &work->host);
    case SG_NODE_GRAPH:
        return perform_nodes(stream, work->graph);
    case SG_NODE_EVENT_WAIT:
        return sg_wait_event(stream, work->event);
    case SG_NODE_EVENT_RECORD:
        return sg_record_event(work->event, stream);
    case SG_NODE_BATCH:
        return sg_run_batch(stream, &work->batch);
    case SG_NODE_PREFETCH:
        return prefetch(stream, &work->memory);
    case SG_NODE_ALLOC:
    case SG_NODE_FREE:
    case SG_NODE_EMPTY:
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_submit(CUstream stream, const struct sg_work *work) {
    if (sg_is_capturing(stream))
        return sg_capture_work(stream, work);
    CUresult result = sg_may_use(stream);
    if (result != CUDA_SUCCESS)
        return result;
    sg_stretch(sg_client.settings.stretch_before_ns);
    result = perform(stream, work);
    sg_stretch(sg_client.settings.stretch_after_ns);
    return result;
}

/* Kernels that follow each other are one entry of the queue: a graph of thousands of nodes is launched at once. */
CUresult sg_launch_graph(CUgraphExec exec, CUstream stream) {
    uint64_t together = 0;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; result == CUDA_SUCCESS && exec->order[i]; i++) {
        const struct sg_work *work = &exec->order[i]->work;
        bool plain = work->type == SG_NODE_COPY || work->type == SG_NODE_SET ||
                     (work->type == SG_NODE_KERNEL && !work->kernel.function->partners);
        if (exec->order[i]->disabled)
            continue;
        if (plain) {
            result = take_effect(stream, work);
            together += length_of_work(work);
            continue;
        }
        if (together)
            result = sg_occupy(stream, together);
        together = 0;
        if (result == CUDA_SUCCESS)
            result = perform(stream, work);
    }
    return result == CUDA_SUCCESS && together ? sg_occupy(stream, together) : result;
}
