/* Questions about graphs. Lists are given as CUDA gives them: without a place, only how many; else as many as fit, the
 * rest of the places set to NULL.
 */
#include <stdio.h>

#include "driver/base/init.h"
#include "driver/graphs/graph.h"

struct list {
    CUgraphNode *into;
    size_t room, count;
};

static void put(struct list *list, CUgraphNode node) {
    if (list->into && list->count < list->room)
        list->into[list->count] = node;
    list->count++;
}

static void close_list(struct list *list, size_t *count) {
    if (!list->into) {
        *count = list->count;
        return;
    }
    for (size_t i = list->count; i < list->room; i++)
        list->into[i] = NULL;
    *count = list->count < list->room ? list->count : list->room;
}

static CUresult list_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count, bool only_roots) {
    NEED_INIT();
    if (!sg_is(graph, SG_GRAPH_HANDLE) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    struct list list = {.into = nodes, .room = *count};
    for (CUgraphNode node = graph->first; node; node = node->next)
        if (!only_roots || node->before_count == 0)
            put(&list, node);
    close_list(&list, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    return list_nodes(graph, nodes, count, false);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    return list_nodes(graph, nodes, count, true);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) {
    NEED_INIT();
    if (!sg_is(graph, SG_GRAPH_HANDLE) || !count || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    struct list sources = {.into = from, .room = *count}, targets = {.into = to, .room = *count};
    for (CUgraphNode node = graph->first; node; node = node->next) {
        for (size_t i = 0; i < node->before_count; i++) {
            put(&sources, node->before[i]);
            put(&targets, node);
        }
    }
    size_t same = *count;
    close_list(&targets, &same);
    close_list(&sources, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count) {
    size_t room = count ? *count : 0;
    for (size_t i = 0; edges && i < room; i++)
        edges[i] = (CUgraphEdgeData){0};
    return cuGraphGetEdges(graph, from, to, count);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *before, size_t *count) {
    NEED_INIT();
    if (!sg_is(node, SG_NODE_HANDLE) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    struct list list = {.into = before, .room = *count};
    for (size_t i = 0; i < node->before_count; i++)
        put(&list, node->before[i]);
    close_list(&list, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *before, CUgraphEdgeData *edges, size_t *count) {
    (void)edges;
    return cuGraphNodeGetDependencies(node, before, count);
}

static bool waits_for(CUgraphNode node, CUgraphNode other) {
    for (size_t i = 0; i < node->before_count; i++)
        if (node->before[i] == other)
            return true;
    return false;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *after, size_t *count) {
    NEED_INIT();
    if (!sg_is(node, SG_NODE_HANDLE) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    struct list list = {.into = after, .room = *count};
    for (CUgraphNode other = node->graph->first; other; other = other->next)
        if (waits_for(other, node))
            put(&list, other);
    close_list(&list, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *after, CUgraphEdgeData *edges, size_t *count) {
    (void)edges;
    return cuGraphNodeGetDependentNodes(node, after, count);
}

static CUresult is_node(CUgraphNode node, const void *out) {
    NEED_INIT();
    return sg_is(node, SG_NODE_HANDLE) && out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
    CUresult result = is_node(node, type);
    if (result == CUDA_SUCCESS)
        *type = node->work.type;
    return result;
}

CUresult cuGraphNodeGetLocalId(CUgraphNode node, unsigned *id) {
    CUresult result = is_node(node, id);
    if (result == CUDA_SUCCESS)
        *id = node->id;
    return result;
}

CUresult cuGraphNodeGetToolsId(CUgraphNode node, unsigned long long *id) {
    CUresult result = is_node(node, id);
    if (result == CUDA_SUCCESS)
        *id = (unsigned long long)node->graph->id << 32 | node->id;
    return result;
}

CUresult cuGraphNodeGetContainingGraph(CUgraphNode node, CUgraph *graph) {
    CUresult result = is_node(node, graph);
    if (result == CUDA_SUCCESS)
        *graph = node->graph;
    return result;
}

CUresult cuGraphGetId(CUgraph graph, unsigned *id) {
    NEED_INIT();
    if (!sg_is(graph, SG_GRAPH_HANDLE) || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *id = graph->id;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode original, CUgraph clone) {
    CUresult result = is_node(original, found);
    if (result != CUDA_SUCCESS || !sg_is(clone, SG_GRAPH_HANDLE))
        return CUDA_ERROR_INVALID_VALUE;
    *found = sg_find_clone(clone, original);
    return *found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags) {
    NEED_INIT();
    (void)flags;
    if (!sg_is(graph, SG_GRAPH_HANDLE) || !path)
        return CUDA_ERROR_INVALID_VALUE;
    FILE *file = fopen(path, "we");
    if (!file)
        return CUDA_ERROR_OPERATING_SYSTEM;
    fprintf(file, "digraph graph_%u {\n", graph->id);
    for (CUgraphNode node = graph->first; node; node = node->next) {
        fprintf(file, "  node_%u [label=\"%u: type %u\"];\n", node->id, node->id, node->work.type);
        for (size_t i = 0; i < node->before_count; i++)
            fprintf(file, "  node_%u -> node_%u;\n", node->before[i]->id, node->id);
    }
    fputs("}\n", file);
    return fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
