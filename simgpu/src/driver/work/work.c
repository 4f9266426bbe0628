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

/* A copy or a set: the time it takes, and the managed bytes that it touches. */
static struct sg_op copy_of(CUstream stream, const struct sg_work *work) {
    struct sg_touched touched = work->type == SG_NODE_COPY ? sg_touch_by_copy(stream->context, &work->copy)
                                                           : sg_touch_by_set(stream->context, &work->set);
    return (struct sg_op){.kind = SG_COPY,
                          .length_ns = length_of_work(work),
                          .target = touched.bytes,
                          .sequence = touched.fresh};
}

static CUresult run_copy(CUstream stream, const struct sg_work *work) {
    const struct sg_op op = copy_of(stream, work);
    return sg_push(stream, &op, NULL, NULL);
}

static CUresult prefetch(CUstream stream, const struct sg_memory_work *memory) {
    const struct sg_op op = {.kind = SG_FETCH, .target = memory->bytes};
    struct sg_block *block = sg_find_block(memory->pointer);
    if (block && block->kind == SG_MANAGED && !memory->to_host)
        sg_touch_block(block, memory->pointer - block->start + memory->bytes);
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
        return run_copy(stream, work);
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

static uint64_t cost_of(const struct sg_work *work) {
    switch (work->type) {
    case SG_NODE_KERNEL:
        return sg_client.settings.launch_cost_ns;
    case SG_NODE_EVENT_RECORD:
        return sg_client.settings.event_cost_ns;
    default:
        return 0;
    }
}

CUresult sg_submit(CUstream stream, const struct sg_work *work) {
    if (sg_is_capturing(stream))
        return sg_capture_work(stream, work);
    CUresult result = sg_may_use(stream);
    if (result != CUDA_SUCCESS)
        return result;
    sg_stretch(sg_client.settings.stretch_before_ns);
    sg_spend(cost_of(work));
    result = perform(stream, work);
    sg_stretch(sg_client.settings.stretch_after_ns);
    return result;
}

static CUresult flush(CUstream stream, uint64_t *together) {
    uint64_t length = *together;
    *together = 0;
    return length ? sg_occupy(stream, length) : CUDA_SUCCESS;
}

/* A copy in a graph: only time, unless it touches managed memory. */
static CUresult add_copy(CUstream stream, const struct sg_work *work, uint64_t *together) {
    CUresult result = take_effect(stream, work);
    if (result != CUDA_SUCCESS)
        return result;
    const struct sg_op op = copy_of(stream, work);
    if (!op.target) {
        *together += op.length_ns;
        return CUDA_SUCCESS;
    }
    result = flush(stream, together);
    return result == CUDA_SUCCESS ? sg_push(stream, &op, NULL, NULL) : result;
}

static CUresult add_node(CUstream stream, const struct sg_work *work, uint64_t *together) {
    if (work->type == SG_NODE_COPY || work->type == SG_NODE_SET)
        return add_copy(stream, work, together);
    if (work->type == SG_NODE_KERNEL && !work->kernel.function->partners) {
        *together += length_of_work(work);
        return CUDA_SUCCESS;
    }
    CUresult result = flush(stream, together);
    return result == CUDA_SUCCESS ? perform(stream, work) : result;
}

/* Kernels and copies that follow each other are one entry of the queue: thousands of nodes are launched at once. */
CUresult sg_launch_graph(CUgraphExec exec, CUstream stream) {
    uint64_t together = 0;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; result == CUDA_SUCCESS && exec->order[i]; i++)
        if (!exec->order[i]->disabled)
            result = add_node(stream, &exec->order[i]->work, &together);
    return result == CUDA_SUCCESS ? flush(stream, &together) : result;
}
