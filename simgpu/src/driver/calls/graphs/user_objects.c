/* User objects: made, counted, and handed to graphs that keep them alive. */
#include "driver/base/init.h"
#include "driver/graphs/graph.h"

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
    sg_release_object(object, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
    NEED_INIT();
    if (!sg_is(graph, SG_GRAPH_HANDLE) || !sg_is(object, SG_USER_OBJECT_HANDLE) || count == 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags == 0) /* without "move" the caller keeps its own */
        atomic_fetch_add(&object->references, count);
    return sg_keep_object(graph, object, count) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
    NEED_INIT();
    if (!sg_is(graph, SG_GRAPH_HANDLE))
        return CUDA_ERROR_INVALID_VALUE;
    for (struct sg_kept *kept = graph->kept; kept; kept = kept->next) {
        if (kept->object == object && kept->count >= count) {
            kept->count -= count;
            sg_release_object(object, count);
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}
