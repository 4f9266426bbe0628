/* Graphs in memory: nodes, edges, clones, order. No device is touched here. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "driver/base/objects.h"

static _Atomic unsigned next_graph_id = 1;

CUgraph sg_new_graph(void) {
    CUgraph graph = sg_new_handle(SG_GRAPH_HANDLE, sizeof *graph);
    if (graph)
        graph->id = atomic_fetch_add(&next_graph_id, 1);
    return graph;
}

static void free_work(CUgraphNode node) {
    if (node->work.type == SG_NODE_BATCH)
        free(node->work.batch.operations);
    if (node->work.type == SG_NODE_GRAPH && node->work.graph)
        sg_destroy_graph(node->work.graph);
    if (node->work.type == SG_NODE_KERNEL)
        free(node->work.kernel.params);
}

/* A kernel's parameter pointers are kept; their targets are the caller's (their sizes are known to nobody here). */
static bool keep_params(CUgraphNode node, const struct sg_kernel_work *kernel) {
    node->work.kernel.params = NULL;
    if (!kernel->params || !kernel->function->length_is_param)
        return true;
    uint64_t *copy = malloc(sizeof(void *) + sizeof(uint64_t));
    if (!copy)
        return false;
    memcpy(copy + 1, kernel->params[0], sizeof(uint64_t));
    node->work.kernel.params = (void **)copy;
    node->work.kernel.params[0] = copy + 1;
    return true;
}

static bool keep_operations(CUgraphNode node, const struct sg_batch_work *batch) {
    size_t bytes = batch->count * sizeof *batch->operations;
    node->work.batch.operations = malloc(bytes ? bytes : 1);
    if (node->work.batch.operations)
        memcpy(node->work.batch.operations, batch->operations, bytes);
    return node->work.batch.operations != NULL;
}

bool sg_keep_work(CUgraphNode node, const struct sg_work *work) {
    struct sg_work before = node->work;
    struct sg_work given = *work; /* it may be the node's own */
    node->work = given;
    if (given.type == SG_NODE_BATCH && !keep_operations(node, &given.batch))
        return false;
    if (given.type == SG_NODE_KERNEL && !keep_params(node, &given.kernel))
        return false;
    if (given.type == SG_NODE_GRAPH) {
        node->work.graph = sg_clone_graph(given.graph);
        if (!node->work.graph)
            return false;
        node->work.graph->owned = true;
    }
    if (node->graph) {
        struct CUgraphNode_st old = {.work = before};
        free_work(&old);
    }
    return true;
}

bool sg_add_edge(CUgraphNode from, CUgraphNode to) {
    for (size_t i = 0; i < to->before_count; i++)
        if (to->before[i] == from)
            return false;
    CUgraphNode *more = realloc(to->before, (to->before_count + 1) * sizeof *more);
    if (!more)
        return false;
    more[to->before_count++] = from;
    to->before = more;
    return true;
}

static void append(CUgraph graph, CUgraphNode node) {
    node->graph = graph;
    node->id = graph->next_id++;
    if (graph->last)
        graph->last->next = node;
    else
        graph->first = node;
    graph->last = node;
    graph->count++;
}

CUgraphNode sg_add_node(CUgraph graph, const CUgraphNode *before, size_t count, const struct sg_work *work) {
    CUgraphNode node = sg_new_handle(SG_NODE_HANDLE, sizeof *node);
    if (!node || !sg_keep_work(node, work))
        return NULL;
    for (size_t i = 0; i < count; i++)
        sg_add_edge(before[i], node);
    append(graph, node);
    return node;
}

static void forget_edges(CUgraphNode gone) {
    for (CUgraphNode node = gone->graph->first; node; node = node->next) {
        for (size_t i = 0; i < node->before_count; i++) {
            if (node->before[i] == gone)
                node->before[i--] = node->before[--node->before_count];
        }
    }
}

static void free_node(CUgraphNode node) {
    free_work(node);
    free(node->before);
    sg_free_handle(node, SG_NODE_HANDLE);
}

void sg_destroy_node(CUgraphNode node) {
    CUgraph graph = node->graph;
    CUgraphNode last = NULL;
    forget_edges(node);
    for (CUgraphNode *at = &graph->first; *at;) {
        if (*at == node) {
            *at = node->next;
            continue;
        }
        last = *at;
        at = &(*at)->next;
    }
    graph->last = last;
    graph->count--;
    free_node(node);
}

void sg_destroy_graph(CUgraph graph) {
    for (CUgraphNode node = graph->first; node;) {
        CUgraphNode next = node->next;
        free_node(node);
        node = next;
    }
    sg_drop_kept(graph);
    sg_free_handle(graph, SG_GRAPH_HANDLE);
}

CUgraphNode sg_find_clone(CUgraph clone, CUgraphNode original) {
    for (CUgraphNode node = clone->first; node; node = node->next)
        if (node->original == original)
            return node;
    return NULL;
}

CUgraph sg_clone_graph(CUgraph graph) {
    CUgraph clone = sg_new_graph();
    if (!clone)
        return NULL;
    for (CUgraphNode node = graph->first; node; node = node->next) {
        CUgraphNode copy = sg_add_node(clone, NULL, 0, &node->work);
        if (!copy) {
            sg_destroy_graph(clone);
            return NULL;
        }
        copy->original = node;
        copy->disabled = node->disabled;
    }
    for (CUgraphNode node = graph->first; node; node = node->next)
        for (size_t i = 0; i < node->before_count; i++)
            sg_add_edge(sg_find_clone(clone, node->before[i]), sg_find_clone(clone, node));
    sg_share_kept(clone, graph);
    return clone;
}

static bool is_free_to_go(const struct CUgraphNode_st *node) {
    for (size_t i = 0; i < node->before_count; i++)
        if (!node->before[i]->mark)
            return false;
    return !node->mark;
}

CUgraphNode *sg_sort_graph(CUgraph graph) {
    CUgraphNode *order = calloc(graph->count + 1, sizeof *order);
    size_t placed = 0, before;
    if (!order)
        return NULL;
    for (CUgraphNode node = graph->first; node; node = node->next)
        node->mark = 0;
    do {
        before = placed;
        for (CUgraphNode node = graph->first; node; node = node->next) {
            if (is_free_to_go(node)) {
                order[placed++] = node;
                node->mark = 1;
            }
        }
    } while (placed > before);
    if (placed == graph->count)
        return order;
    free(order);
    return NULL;
}
