/* Graphs: nodes of work, the nodes that each node waits for, and the executable form of a graph. */
#ifndef SIMGPU_GRAPH_H
#define SIMGPU_GRAPH_H

#include <stdatomic.h>

#include "driver/base/handles.h"
#include "node.h"

/* A destructor of the program. It is called when the last reference is gone. */
struct CUuserObject_st {
    struct sg_handle handle;
    void *pointer;
    CUhostFn destroy;
    _Atomic unsigned references;
};

/* A user object that a graph keeps alive. */
struct sg_kept {
    CUuserObject object;
    unsigned count;
    struct sg_kept *next;
};

struct CUgraphNode_st {
    struct sg_handle handle;
    CUgraph graph;
    struct sg_work work;
    CUgraphNode *before; /* it waits for these */
    size_t before_count;
    CUgraphNode original; /* the node that it is a clone of */
    unsigned id, mark;
    bool disabled;
    CUgraphNode next;
};

struct CUgraph_st {
    struct sg_handle handle;
    CUgraphNode first, last;
    size_t count;
    unsigned next_id, id;
    bool owned; /* it is a child: it is destroyed with its node */
    struct sg_kept *kept;
};

struct CUgraphExec_st {
    struct sg_handle handle;
    CUgraph graph;      /* a clone of the graph that was instantiated */
    CUgraphNode *order; /* its nodes, each after the nodes that it waits for */
    cuuint64_t flags;
    unsigned id;
};

CUgraph sg_new_graph(void);
void sg_destroy_graph(CUgraph graph);
CUgraph sg_clone_graph(CUgraph graph);
CUgraphNode sg_add_node(CUgraph graph, const CUgraphNode *before, size_t count, const struct sg_work *work);
bool sg_add_edge(CUgraphNode from, CUgraphNode to);
void sg_destroy_node(CUgraphNode node);
/* All nodes in an order that respects their edges, with NULL at the end; NULL when there is a cycle. */
CUgraphNode *sg_sort_graph(CUgraph graph);
CUgraphNode sg_find_clone(CUgraph clone, CUgraphNode original);
/* The copy of the work that a node keeps; arrays are copied too. */
bool sg_keep_work(CUgraphNode node, const struct sg_work *work);

/* Holds user objects for as long as the graph lives. */
bool sg_keep_object(CUgraph graph, CUuserObject object, unsigned count);
void sg_release_object(CUuserObject object, unsigned count);
void sg_share_kept(CUgraph to, CUgraph from);
void sg_drop_kept(CUgraph graph);

#endif
