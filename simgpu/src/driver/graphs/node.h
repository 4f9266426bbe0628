/* A piece of work: a stream executes it, or a node of a graph keeps it. */
#ifndef SIMGPU_NODE_H
#define SIMGPU_NODE_H

#include "driver/abi/api.h"

/* As CUgraphNodeType numbers them. */
enum sg_node_type {
    SG_NODE_KERNEL = 0,
    SG_NODE_COPY = 1,
    SG_NODE_SET = 2,
    SG_NODE_HOST = 3,
    SG_NODE_GRAPH = 4,
    SG_NODE_EMPTY = 5,
    SG_NODE_EVENT_WAIT = 6,
    SG_NODE_EVENT_RECORD = 7,
    SG_NODE_ALLOC = 10,
    SG_NODE_FREE = 11,
    SG_NODE_BATCH = 12,
    SG_NODE_PREFETCH = 100, /* it is no graph node of CUDA and is never captured */
};

struct sg_kernel_work {
    CUfunction function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    uint64_t length_ns;
};

struct sg_host_work {
    CUhostFn function;
    CUstreamCallback callback; /* instead of function */
    void *data;
};

struct sg_batch_work {
    unsigned count;
    CUstreamBatchMemOpParams *operations; /* owned by the node when it is one */
};

struct sg_memory_work {
    CUdeviceptr pointer;
    uint64_t bytes;
    CUmemoryPool pool;
    bool to_host; /* prefetch */
};

struct sg_work {
    enum sg_node_type type;
    union {
        struct sg_kernel_work kernel;
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS set;
        struct sg_host_work host;
        struct sg_batch_work batch;
        struct sg_memory_work memory;
        CUevent event;
        CUgraph graph;
    };
};

#endif
