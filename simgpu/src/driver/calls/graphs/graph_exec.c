/* Executable graphs: made, changed, launched. */
#include <stdlib.h>
#include <string.h>

#include "driver/base/thread.h"
#include "driver/graphs/capture.h"
#include "driver/work/stretch.h"
#include "driver/work/work.h"

#define FLAG_UPLOAD 2u

static _Atomic unsigned next_exec_id = 1;

static CUresult instantiate(CUgraphExec *made, CUgraph graph, cuuint64_t flags) {
    NEED_INIT();
    if (!made || !sg_is(graph, SG_GRAPH_HANDLE) || flags & ~15ull)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNode *sortable = sg_sort_graph(graph);
    free(sortable);
    if (!sortable)
        return CUDA_ERROR_INVALID_VALUE; /* it has a cycle */
    CUgraphExec exec = sg_new_handle(SG_EXEC_HANDLE, sizeof *exec);
    CUgraph clone = exec ? sg_clone_graph(graph) : NULL;
    if (!clone)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->graph = clone;
    exec->order = sg_sort_graph(clone);
    exec->flags = flags;
    exec->id = atomic_fetch_add(&next_exec_id, 1);
    *made = exec;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    return instantiate(exec, graph, flags);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log, size_t bytes) {
    CUresult result = instantiate(exec, graph, 0);
    if (error)
        *error = NULL;
    if (log && bytes)
        log[0] = '\0';
    return result;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error, char *log, size_t bytes) {
    return cuGraphInstantiate_v2(exec, graph, error, log, bytes);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = instantiate(exec, graph, params->flags);
    if (result == CUDA_SUCCESS && params->flags & FLAG_UPLOAD && (result = cuGraphUpload(*exec, params->hUploadStream)))
        cuGraphExecDestroy(*exec);
    params->hErrNode_out = NULL;
    params->result_out = result == CUDA_SUCCESS ? 0 : 1;
    return result;
}

static CUresult is_exec(CUgraphExec exec, const void *out) {
    NEED_INIT();
    return sg_is(exec, SG_EXEC_HANDLE) && out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    CUresult result = is_exec(exec, exec);
    if (result != CUDA_SUCCESS)
        return result;
    sg_destroy_graph(exec->graph);
    free(exec->order);
    sg_free_handle(exec, SG_EXEC_HANDLE);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags) {
    CUresult result = is_exec(exec, flags);
    if (result == CUDA_SUCCESS)
        *flags = exec->flags;
    return result;
}

CUresult cuGraphExecGetId(CUgraphExec exec, unsigned *id) {
    CUresult result = is_exec(exec, id);
    if (result == CUDA_SUCCESS)
        *id = exec->id;
    return result;
}

static CUresult find(CUgraphExec exec, CUstream given, CUstream *stream) {
    CUresult result = is_exec(exec, exec);
    return result == CUDA_SUCCESS ? sg_stream(given, stream) : result;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream given) {
    CUstream stream;
    CUresult result = find(exec, given, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (sg_is_capturing(stream)) /* becomes a child */
        return sg_capture_work(stream, &(struct sg_work){.type = SG_NODE_GRAPH, .graph = exec->graph});
    result = sg_may_use(stream);
    if (result != CUDA_SUCCESS)
        return result;
    sg_stretch(sg_client.settings.stretch_before_ns);
    sg_spend(sg_client.settings.launch_cost_ns);
    result = sg_launch_graph(exec, stream);
    sg_stretch(sg_client.settings.stretch_after_ns);
    return result;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream given) {
    CUstream stream;
    CUresult result = find(exec, given, &stream);
    if (result == CUDA_SUCCESS)
        result = sg_is_capturing(stream) ? sg_may_wait_for(stream) : sg_may_use(stream);
    return result == CUDA_SUCCESS ? sg_occupy(stream, 2000) : result;
}

static CUresult find_node(CUgraphExec exec, CUgraphNode node, CUgraphNode *clone, const void *out) {
    CUresult result = is_exec(exec, out);
    if (result != CUDA_SUCCESS || !sg_is(node, SG_NODE_HANDLE))
        return CUDA_ERROR_INVALID_VALUE;
    *clone = sg_find_clone(exec->graph, node);
    return *clone ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
    CUgraphNode clone;
    CUresult result = find_node(exec, node, &clone, exec);
    if (result == CUDA_SUCCESS && clone->work.type > SG_NODE_SET)
        result = CUDA_ERROR_INVALID_VALUE; /* only kernels, copies and sets can be switched off */
    if (result == CUDA_SUCCESS)
        clone->disabled = !enabled;
    return result;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned *enabled) {
    CUgraphNode clone;
    CUresult result = find_node(exec, node, &clone, enabled);
    if (result == CUDA_SUCCESS)
        *enabled = !clone->disabled;
    return result;
}

/* ---- update: the same shape with other parameters */

static CUgraphNode first_difference(CUgraphExec exec, CUgraph graph) {
    CUgraphNode mine = exec->graph->first, other = graph->first;
    for (; mine && other; mine = mine->next, other = other->next)
        if (mine->work.type != other->work.type || mine->before_count != other->before_count)
            return other;
    return mine ? graph->last : other;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info) {
    CUresult result = is_exec(exec, info);
    if (result != CUDA_SUCCESS || !sg_is(graph, SG_GRAPH_HANDLE))
        return CUDA_ERROR_INVALID_VALUE;
    *info = (CUgraphExecUpdateResultInfo){0};
    CUgraphNode other = first_difference(exec, graph);
    if (other || exec->graph->count != graph->count) {
        info->result = 2; /* the topology changed */
        info->errorNode = other;
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    CUgraphNode mine = exec->graph->first;
    for (CUgraphNode node = graph->first; node; node = node->next, mine = mine->next) {
        sg_keep_work(mine, &node->work);
        mine->original = node;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error, CUgraphExecUpdateResult *out) {
    CUgraphExecUpdateResultInfo info;
    CUresult result = cuGraphExecUpdate_v2(exec, graph, &info);
    if (error)
        *error = info.errorNode;
    if (out)
        *out = info.result;
    return result;
}
