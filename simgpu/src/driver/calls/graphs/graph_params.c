/* What nodes do: read from CUDA's structures, given back in them, changed in graphs and in executable ones. */
#include "graph_params.h"

#include <string.h>

#include "driver/allocations/blocks.h"
#include "driver/base/thread.h"
#include "driver/calls/modules/library.h"
#include "driver/work/work.h"

CUresult sg_read_kernel(const void *given, bool second_form, struct sg_work *work) {
    CUDA_KERNEL_NODE_PARAMS_v2 params = {0};
    if (!given)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&params, given, second_form ? sizeof(CUDA_KERNEL_NODE_PARAMS_v2) : sizeof(CUDA_KERNEL_NODE_PARAMS_v1));
    CUfunction function = params.func;
    if (!function && params.kern)
        function = sg_function_of_kernel(params.kern, params.ctx ? params.ctx : sg_thread.current);
    if (sg_is(function, SG_KERNEL_HANDLE))
        function = sg_function_of_kernel(function, sg_thread.current);
    if (!sg_is(function, SG_FUNCTION_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    *work = (struct sg_work){.type = SG_NODE_KERNEL,
                             .kernel = {.function = function,
                                        .grid = {params.gridDimX, params.gridDimY, params.gridDimZ},
                                        .block = {params.blockDimX, params.blockDimY, params.blockDimZ},
                                        .shared_bytes = params.sharedMemBytes,
                                        .params = params.kernelParams,
                                        .extra = params.extra}};
    const unsigned *grid = work->kernel.grid, *block = work->kernel.block;
    if (!grid[0] || !grid[1] || !grid[2] || !block[0] || !block[1] || !block[2])
        return CUDA_ERROR_INVALID_VALUE;
    work->kernel.length_ns = sg_kernel_length(&work->kernel);
    work->kernel.extra = NULL;
    return CUDA_SUCCESS;
}

static void write_kernel(const struct sg_kernel_work *kernel, CUDA_KERNEL_NODE_PARAMS_v2 *params) {
    *params = (CUDA_KERNEL_NODE_PARAMS_v2){
        .func = kernel->function,
        .gridDimX = kernel->grid[0], .gridDimY = kernel->grid[1], .gridDimZ = kernel->grid[2],
        .blockDimX = kernel->block[0], .blockDimY = kernel->block[1], .blockDimZ = kernel->block[2],
        .sharedMemBytes = kernel->shared_bytes,
        .kernelParams = kernel->params,
        .extra = kernel->extra,
        .ctx = kernel->function->module->context,
    };
}

static CUresult read_event(CUevent event, enum sg_node_type type, struct sg_work *work) {
    *work = (struct sg_work){.type = type, .event = event};
    return sg_is(event, SG_EVENT_HANDLE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_read_params(const CUgraphNodeParams *params, struct sg_work *work) {
    *work = (struct sg_work){.type = params->type};
    switch (params->type) {
    case SG_NODE_KERNEL:
        return sg_read_kernel(&params->kernel, true, work);
    case SG_NODE_COPY:
        work->copy = params->memcpy.copyParams;
        return CUDA_SUCCESS;
    case SG_NODE_SET:
        work->set = params->memset;
        return CUDA_SUCCESS;
    case SG_NODE_HOST:
        work->host = (struct sg_host_work){.function = params->host.fn, .data = params->host.userData};
        return params->host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case SG_NODE_GRAPH:
        work->graph = params->graph.graph;
        return sg_is(work->graph, SG_GRAPH_HANDLE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case SG_NODE_EMPTY:
        return CUDA_SUCCESS;
    case SG_NODE_EVENT_WAIT:
    case SG_NODE_EVENT_RECORD:
        return read_event(params->eventWait.event, params->type, work);
    case SG_NODE_FREE:
        work->memory.pointer = params->free.dptr;
        return sg_find_block(params->free.dptr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case SG_NODE_BATCH:
        work->batch = (struct sg_batch_work){params->memOp.count, params->memOp.paramArray};
        return params->memOp.paramArray ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_NOT_SUPPORTED; /* semaphores, conditionals */
    }
}

/* ---- one pair of entry points a kind of node */

static CUresult node_of(CUgraphNode node, enum sg_node_type type, const void *out) {
    NEED_INIT();
    return out && sg_is(node, SG_NODE_HANDLE) && node->work.type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#define GET(name, type, out_type, write)                                                                               \
    CUresult name(CUgraphNode node, out_type *out) {                                                                   \
        CUresult result = node_of(node, type, out);                                                                    \
        if (result == CUDA_SUCCESS) {                                                                                  \
            write;                                                                                                     \
        }                                                                                                              \
        return result;                                                                                                 \
    }

GET(cuGraphKernelNodeGetParams_v2, SG_NODE_KERNEL, CUDA_KERNEL_NODE_PARAMS_v2, write_kernel(&node->work.kernel, out))
GET(cuGraphMemcpyNodeGetParams, SG_NODE_COPY, CUDA_MEMCPY3D, *out = node->work.copy)
GET(cuGraphMemsetNodeGetParams, SG_NODE_SET, CUDA_MEMSET_NODE_PARAMS, *out = node->work.set)
GET(cuGraphHostNodeGetParams, SG_NODE_HOST, CUDA_HOST_NODE_PARAMS,
    *out = ((CUDA_HOST_NODE_PARAMS){node->work.host.function, node->work.host.data}))
GET(cuGraphChildGraphNodeGetGraph, SG_NODE_GRAPH, CUgraph, *out = node->work.graph)
GET(cuGraphEventRecordNodeGetEvent, SG_NODE_EVENT_RECORD, CUevent, *out = node->work.event)
GET(cuGraphEventWaitNodeGetEvent, SG_NODE_EVENT_WAIT, CUevent, *out = node->work.event)
GET(cuGraphMemFreeNodeGetParams, SG_NODE_FREE, CUdeviceptr, *out = node->work.memory.pointer)
GET(cuGraphMemAllocNodeGetParams, SG_NODE_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS,
    *out = ((CUDA_MEM_ALLOC_NODE_PARAMS){.bytesize = node->work.memory.bytes, .dptr = node->work.memory.pointer}))
GET(cuGraphBatchMemOpNodeGetParams, SG_NODE_BATCH, CUDA_BATCH_MEM_OP_NODE_PARAMS,
    *out = ((CUDA_BATCH_MEM_OP_NODE_PARAMS){.count = node->work.batch.count,
                                            .paramArray = node->work.batch.operations}))

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *out) {
    CUDA_KERNEL_NODE_PARAMS_v2 full;
    CUresult result = out ? cuGraphKernelNodeGetParams_v2(node, &full) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        memcpy(out, &full, sizeof *out);
    return result;
}

static CUresult replace(CUgraphNode node, const struct sg_work *work) {
    CUresult result = node_of(node, work->type, work);
    if (result != CUDA_SUCCESS)
        return result;
    return sg_keep_work(node, work) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The node of an executable graph that stands for one of the graph it was made from. */
static CUresult replace_in(CUgraphExec exec, CUgraphNode node, const struct sg_work *work) {
    NEED_INIT();
    if (!sg_is(exec, SG_EXEC_HANDLE) || !sg_is(node, SG_NODE_HANDLE))
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNode clone = sg_find_clone(exec->graph, node);
    return clone ? replace(clone, work) : CUDA_ERROR_INVALID_VALUE;
}

/* cuGraph<…>SetParams for a graph's node, cuGraphExec<…>SetParams for an executable graph's */
#define SET(node_name, exec_name, params_type, read)                                                                   \
    CUresult node_name(CUgraphNode node, params_type params) {                                                         \
        struct sg_work work;                                                                                           \
        CUresult result = read;                                                                                        \
        return result == CUDA_SUCCESS ? replace(node, &work) : result;                                                 \
    }                                                                                                                  \
    CUresult exec_name(CUgraphExec exec, CUgraphNode node, params_type params) {                                       \
        struct sg_work work;                                                                                           \
        CUresult result = read;                                                                                        \
        return result == CUDA_SUCCESS ? replace_in(exec, node, &work) : result;                                        \
    }

static CUresult read_copy(const CUDA_MEMCPY3D *params, struct sg_work *work) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct sg_work){.type = SG_NODE_COPY, .copy = *params};
    return CUDA_SUCCESS;
}

static CUresult read_set(const CUDA_MEMSET_NODE_PARAMS *params, struct sg_work *work) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct sg_work){.type = SG_NODE_SET, .set = *params};
    return CUDA_SUCCESS;
}

static CUresult read_host(const CUDA_HOST_NODE_PARAMS *params, struct sg_work *work) {
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct sg_work){.type = SG_NODE_HOST, .host = {.function = params->fn, .data = params->userData}};
    return CUDA_SUCCESS;
}

static CUresult read_batch(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params, struct sg_work *work) {
    if (!params || !params->paramArray)
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct sg_work){.type = SG_NODE_BATCH, .batch = {params->count, params->paramArray}};
    return CUDA_SUCCESS;
}

SET(cuGraphKernelNodeSetParams, cuGraphExecKernelNodeSetParams, const CUDA_KERNEL_NODE_PARAMS_v1 *,
    sg_read_kernel(params, false, &work))
SET(cuGraphKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams_v2, const CUDA_KERNEL_NODE_PARAMS_v2 *,
    sg_read_kernel(params, true, &work))
SET(cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams, const CUDA_HOST_NODE_PARAMS *, read_host(params, &work))
SET(cuGraphBatchMemOpNodeSetParams, cuGraphExecBatchMemOpNodeSetParams, const CUDA_BATCH_MEM_OP_NODE_PARAMS *,
    read_batch(params, &work))
SET(cuGraphEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, CUevent,
    read_event(params, SG_NODE_EVENT_RECORD, &work))
SET(cuGraphEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, CUevent,
    read_event(params, SG_NODE_EVENT_WAIT, &work))
SET(cuGraphNodeSetParams, cuGraphExecNodeSetParams, CUgraphNodeParams *,
    params ? sg_read_params(params, &work) : CUDA_ERROR_INVALID_VALUE)

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *params) {
    struct sg_work work;
    CUresult result = read_copy(params, &work);
    return result == CUDA_SUCCESS ? replace(node, &work) : result;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params,
                                        CUcontext context) {
    struct sg_work work;
    (void)context;
    CUresult result = read_copy(params, &work);
    return result == CUDA_SUCCESS ? replace_in(exec, node, &work) : result;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params) {
    struct sg_work work;
    CUresult result = read_set(params, &work);
    return result == CUDA_SUCCESS ? replace(node, &work) : result;
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params,
                                        CUcontext context) {
    struct sg_work work;
    (void)context;
    CUresult result = read_set(params, &work);
    return result == CUDA_SUCCESS ? replace_in(exec, node, &work) : result;
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
    if (!sg_is(child, SG_GRAPH_HANDLE))
        return CUDA_ERROR_INVALID_VALUE;
    return replace_in(exec, node, &(struct sg_work){.type = SG_NODE_GRAPH, .graph = child});
}
