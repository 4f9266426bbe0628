/* The user objects that graphs keep alive: counted, and ended with their last reference. */
#include "graph.h"

#include <stdlib.h>

void sg_release_object(CUuserObject object, unsigned count) {
    if (atomic_fetch_sub(&object->references, count) != count)
        return;
    object->destroy(object->pointer);
    sg_free_handle(object, SG_USER_OBJECT_HANDLE);
}

bool sg_keep_object(CUgraph graph, CUuserObject object, unsigned count) {
    struct sg_kept *kept = malloc(sizeof *kept);
    if (!kept)
        return false;
    *kept = (struct sg_kept){object, count, graph->kept};
    graph->kept = kept;
    return true;
}

void sg_share_kept(CUgraph to, CUgraph from) {
    for (struct sg_kept *kept = from->kept; kept; kept = kept->next) {
        if (kept->count == 0 || !sg_keep_object(to, kept->object, kept->count))
            continue;
        atomic_fetch_add(&kept->object->references, kept->count);
    }
}

void sg_drop_kept(CUgraph graph) {
    while (graph->kept) {
        struct sg_kept *kept = graph->kept;
        graph->kept = kept->next;
        if (kept->count)
            sg_release_object(kept->object, kept->count);
        free(kept);
    }
}
