/* Executable graphs: made, changed, launched; and the user objects that graphs keep alive. */
#include <stdlib.h>
#include <string.h>

#include "driver/graphs/graph.h"

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

/* ---- user objects */

struct CUuserObject_st {
    struct sg_handle handle;
    void *pointer;
    CUhostFn destroy;
    _Atomic unsigned references;
};

struct sg_kept {
    CUuserObject object;
    unsigned count;
    struct sg_kept *next;
};

static void release(CUuserObject object, unsigned count) {
    if (atomic_fetch_sub(&object->references, count) != count)
        return;
    object->destroy(object->pointer);
    sg_free_handle(object, SG_USER_OBJECT_HANDLE);
}

CUresult cuUserObjectCreate(CUuserObject *made, void *pointer, CUhostFn destroy, unsigned references, unsigned flags) {
    NEED_INIT();
    if (!made || !destroy || references == 0 || flags != 1)
        return CUDA_ERROR_INVALID_VALUE;
    CUuserObject object = sg_new_handle(SG_USER_OBJECT_HANDLE, sizeof *object);
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    object->pointer = pointer;
    object->destroy = destroy;
    atomic_store(&object->references, references);
    *made = object;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned count) {
    NEED_INIT();
    if (!sg_is(object, SG_USER_OBJECT_HANDLE) || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    atomic_fetch_add(&object->references, count);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned count) {
    NEED_INIT();
    if (!sg_is(object, SG_USER_OBJECT_HANDLE) || count == 0 || count > atomic_load(&object->references))
        return CUDA_ERROR_INVALID_VALUE;
    release(object, count);
    return CUDA_SUCCESS;
}

static bool keep(CUgraph graph, CUuserObject object, unsigned count) {
    struct sg_kept *kept = malloc(sizeof *kept);
    if (!kept)
        return false;
    *kept = (struct sg_kept){object, count, graph->kept};
    graph->kept = kept;
    return true;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
    NEED_INIT();
    if (!sg_is(graph, SG_GRAPH_HANDLE) || !sg_is(object, SG_USER_OBJECT_HANDLE) || count == 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags == 0) /* without "move" the caller keeps its own */
        atomic_fetch_add(&object->references, count);
    return keep(graph, object, count) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
    NEED_INIT();
    if (!sg_is(graph, SG_GRAPH_HANDLE))
        return CUDA_ERROR_INVALID_VALUE;
    for (struct sg_kept *kept = graph->kept; kept; kept = kept->next) {
        if (kept->object == object && kept->count >= count) {
            kept->count -= count;
            release(object, count);
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

void sg_share_kept(CUgraph to, CUgraph from) {
    for (struct sg_kept *kept = from->kept; kept; kept = kept->next) {
        if (kept->count == 0 || !keep(to, kept->object, kept->count))
            continue;
        atomic_fetch_add(&kept->object->references, kept->count);
    }
}

void sg_drop_kept(CUgraph graph) {
    while (graph->kept) {
        struct sg_kept *kept = graph->kept;
        graph->kept = kept->next;
        if (kept->count)
            release(kept->object, kept->count);
        free(kept);
    }
}
