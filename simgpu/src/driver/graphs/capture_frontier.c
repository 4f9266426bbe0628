/* The frontier of a capturing stream: the nodes that its next node will wait for. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

static bool contains(CUgraphNode *nodes, size_t count, CUgraphNode node) {
    for (size_t i = 0; i < count; i++)
        if (nodes[i] == node)
            return true;
    return false;
}

bool sg_set_frontier(CUstream stream, CUgraphNode *nodes, size_t count) {
    CUgraphNode *copy = calloc(count + 1, sizeof *copy);
    if (!copy)
        return false;
    if (count)
        memcpy(copy, nodes, count * sizeof *copy);
    free(stream->frontier);
    stream->frontier = copy;
    stream->frontier_count = count;
    return true;
}

bool sg_extend_frontier(CUstream stream, CUgraphNode *nodes, size_t count) {
    CUgraphNode *all = calloc(stream->frontier_count + count + 1, sizeof *all);
    size_t total = stream->frontier_count;
    if (!all)
        return false;
    if (total)
        memcpy(all, stream->frontier, total * sizeof *all);
    for (size_t i = 0; i < count; i++)
        if (!contains(all, total, nodes[i]))
            all[total++] = nodes[i];
    bool done = sg_set_frontier(stream, all, total);
    free(all);
    return done;
}
