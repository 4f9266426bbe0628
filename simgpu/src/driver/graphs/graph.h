/* Graphs: nodes of work and what each waits for; and their executable form. */
#ifndef SIMGPU_GRAPH_H
#define SIMGPU_GRAPH_H

#include "capture.h"

struct CUgraphNode_st {
    struct sg_handle handle;
    CUgraph graph;
    struct sg_work work;
    CUgraphNode *before; /* it waits for these */
    size_t before_count;
    CUgraphNode original; /* of which it is the clone */
    unsigned id, mark;
    bool disabled;
    CUgraphNode next;
};

struct CUgraph_st {
    struct sg_handle handle;
    CUgraphNode first, last;
    size_t count;
    unsigned next_id, id;
    bool owned; /* a child: lives and dies with its node */
    struct sg_kept *kept;
};

struct CUgraphExec_st {
    struct sg_handle handle;
    CUgraph graph;      /* a clone of what was instantiated */
    CUgraphNode *order; /* its nodes, each after those it waits for */
    cuuint64_t flags;
    unsigned id;
};

/* What a stream's capture is like now: status as CUstreamCaptureStatus numbers it. */
struct sg_capture_view {
    unsigned status;
    uint64_t id;
    CUgraph graph;
};
struct sg_capture_view sg_view_capture(CUstream stream);
CUresult sg_begin_capture(CUstream stream, unsigned mode, CUgraph graph, CUgraphNode *before, size_t count);
CUresult sg_change_frontier(CUstream stream, CUgraphNode *nodes, size_t count, bool replace);

bool sg_set_frontier(CUstream stream, CUgraphNode *nodes, size_t count);
bool sg_extend_frontier(CUstream stream, CUgraphNode *nodes, size_t count);

CUgraph sg_new_graph(void);
void sg_destroy_graph(CUgraph graph);
CUgraph sg_clone_graph(CUgraph graph);
CUgraphNode sg_add_node(CUgraph graph, const CUgraphNode *before, size_t count, const struct sg_work *work);
bool sg_add_edge(CUgraphNode from, CUgraphNode to);
void sg_destroy_node(CUgraphNode node);
/* All nodes in an order that respects their edges, ended by NULL; NULL when there is a cycle. */
CUgraphNode *sg_sort_graph(CUgraph graph);
CUgraphNode sg_find_clone(CUgraph clone, CUgraphNode original);
/* What a node keeps of the work: arrays are copied. */
bool sg_keep_work(CUgraphNode node, const struct sg_work *work);
CUresult sg_launch_graph(CUgraphExec exec, CUstream stream);
/* Work out of CUDA's structures; `second_form`: CUDA_KERNEL_NODE_PARAMS_v2, else _v1. */
CUresult sg_read_kernel(const void *params, bool second_form, struct sg_work *work);
CUresult sg_read_params(const CUgraphNodeParams *params, struct sg_work *work);

/* Holds user objects for as long as the graph lives. */
void sg_share_kept(CUgraph to, CUgraph from);
void sg_drop_kept(CUgraph graph);

#endif
