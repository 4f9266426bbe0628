/* Graphs built by hand: nodes of every kind, their edges, and questions about both. */
#include <stdlib.h>
#include <string.h>

#include "driver/allocations/blocks.h"
#include "driver/base/thread.h"
#include "driver/graphs/graph.h"
#include "graph_params.h"

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
    NEED_INIT();
    if (!graph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = sg_new_graph();
    return *graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph graph) {
    NEED_INIT();
    if (!sg_is(graph, SG_GRAPH_HANDLE) || graph->owned)
        return CUDA_ERROR_INVALID_VALUE;
    sg_destroy_graph(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *clone, CUgraph graph) {
    NEED_INIT();
    if (!clone || !sg_is(graph, SG_GRAPH_HANDLE))
        return CUDA_ERROR_INVALID_VALUE;
    *clone = sg_clone_graph(graph);
    return *clone ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- adding nodes */

static bool are_nodes_of(CUgraph graph, const CUgraphNode *nodes, size_t count) {
    if (count && !nodes)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!sg_is(nodes[i], SG_NODE_HANDLE) || nodes[i]->graph != graph)
            return false;
    return true;
}

static CUresult add(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                    const struct sg_work *work) {
    NEED_INIT();
    if (!node || !sg_is(graph, SG_GRAPH_HANDLE) || !are_nodes_of(graph, before, count))
        return CUDA_ERROR_INVALID_VALUE;
    *node = sg_add_node(graph, before, count, work);
    return *node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS_v2 *params) {
    struct sg_work work;
    CUresult result = sg_read_kernel(params, true, &work);
    return result == CUDA_SUCCESS ? add(node, graph, before, count, &work) : result;
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *params) {
    struct sg_work work;
    CUresult result = sg_read_kernel(params, false, &work);
    return result == CUDA_SUCCESS ? add(node, graph, before, count, &work) : result;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                              const CUDA_MEMCPY3D *params, CUcontext context) {
    (void)context;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    return add(node, graph, before, count, &(struct sg_work){.type = SG_NODE_COPY, .copy = *params});
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context) {
    (void)context;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    return add(node, graph, before, count, &(struct sg_work){.type = SG_NODE_SET, .set = *params});
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                            const CUDA_HOST_NODE_PARAMS *params) {
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sg_work work = {.type = SG_NODE_HOST, .host = {.function = params->fn, .data = params->userData}};
    return add(node, graph, before, count, &work);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count) {
    return add(node, graph, before, count, &(struct sg_work){.type = SG_NODE_EMPTY});
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                  CUgraph child) {
    if (!sg_is(child, SG_GRAPH_HANDLE) || child == graph)
        return CUDA_ERROR_INVALID_VALUE;
    return add(node, graph, before, count, &(struct sg_work){.type = SG_NODE_GRAPH, .graph = child});
}

static CUresult add_event(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                          const struct sg_work *work) {
    if (!sg_is(work->event, SG_EVENT_HANDLE))
        return CUDA_ERROR_INVALID_VALUE;
    return add(node, graph, before, count, work);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                   CUevent event) {
    return add_event(node, graph, before, count, &(struct sg_work){.type = SG_NODE_EVENT_RECORD, .event = event});
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                 CUevent event) {
    return add_event(node, graph, before, count, &(struct sg_work){.type = SG_NODE_EVENT_WAIT, .event = event});
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS *params) {
    if (!params || !params->paramArray || params->count > 256)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sg_work work = {.type = SG_NODE_BATCH, .batch = {params->count, params->paramArray}};
    return add(node, graph, before, count, &work);
}

/* The address is known at once; the memory is taken when the graph runs. */
CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *params) {
    CUcontext context;
    CUresult result = sg_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!params || params->bytesize == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sg_block *block = sg_add_block(SG_POOLED, context, params->bytesize, 0);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->of_graph = true;
    params->dptr = block->start;
    const struct sg_work work = {.type = SG_NODE_ALLOC, .memory = {.pointer = block->start, .bytes = block->bytes}};
    return add(node, graph, before, count, &work);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                               CUdeviceptr pointer) {
    if (!sg_find_block(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    return add(node, graph, before, count, &(struct sg_work){.type = SG_NODE_FREE, .memory = {.pointer = pointer}});
}

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                        CUgraphNodeParams *params) {
    struct sg_work work;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type == SG_NODE_ALLOC)
        return cuGraphAddMemAllocNode(node, graph, before, count, &params->alloc);
    CUresult result = sg_read_params(params, &work);
    return result == CUDA_SUCCESS ? add(node, graph, before, count, &work) : result;
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges,
                           size_t count, CUgraphNodeParams *params) {
    (void)edges;
    return cuGraphAddNode(node, graph, before, count, params);
}

/* ---- edges */

static CUresult change_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count,
                             bool (*change)(CUgraphNode, CUgraphNode)) {
    NEED_INIT();
    if (!sg_is(graph, SG_GRAPH_HANDLE) || !are_nodes_of(graph, from, count) || !are_nodes_of(graph, to, count))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (from[i] == to[i] || !change(from[i], to[i]))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static bool remove_edge(CUgraphNode from, CUgraphNode to) {
    for (size_t i = 0; i < to->before_count; i++) {
        if (to->before[i] == from) {
            to->before[i] = to->before[--to->before_count];
            return true;
        }
    }
    return false;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
    return change_edges(graph, from, to, count, sg_add_edge);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edges, size_t count) {
    (void)edges;
    return change_edges(graph, from, to, count, sg_add_edge);
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) {
    return change_edges(graph, from, to, count, remove_edge);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *edges, size_t count) {
    (void)edges;
    return change_edges(graph, from, to, count, remove_edge);
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
    NEED_INIT();
    if (!sg_is(node, SG_NODE_HANDLE))
        return CUDA_ERROR_INVALID_VALUE;
    sg_destroy_node(node);
    return CUDA_SUCCESS;
}
