/* Work that a stream is given: done now, or kept as a graph's node while the stream captures. */
#ifndef SIMGPU_CAPTURE_H
#define SIMGPU_CAPTURE_H

#include "driver/base/objects.h"

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
    SG_NODE_PREFETCH = 100, /* no graph node of CUDA's: never captured */
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

/* Does the work on the stream, or adds it to the capture the stream is in. */
CUresult sg_submit(CUstream stream, const struct sg_work *work);
/* Does it, whatever the stream is in. */
CUresult sg_perform(CUstream stream, const struct sg_work *work);
/* Whether calls are stretched for race drills, and one such stretch: up to that long, at random. */
extern bool sg_stretches;
void sg_stretch(uint64_t limit_ns);
/* How long it takes the device, without paging. */
uint64_t sg_length_of_work(const struct sg_work *work);
/* Moves and sets bytes, charges memory: what happens beside taking time. */
CUresult sg_take_effect(CUstream stream, const struct sg_work *work);

static inline bool sg_is_capturing(CUstream stream) {
    return atomic_load_explicit(&stream->capture, memory_order_relaxed) != NULL;
}

CUresult sg_capture_event(CUstream stream, CUevent event);
CUresult sg_capture_wait(CUstream stream, CUevent event);
void sg_forget_captured(CUevent event);
CUresult sg_may_ask_event(CUevent event);
/* Adds work as a node to the capture of the stream; gives the node. */
CUresult sg_capture_work(CUstream stream, const struct sg_work *work);

CUresult sg_record_event(CUevent event, CUstream stream);
CUresult sg_wait_event(CUstream stream, CUevent event);
CUresult sg_run_kernel(CUstream stream, const struct sg_kernel_work *kernel);
uint64_t sg_kernel_length(const struct sg_kernel_work *kernel);
CUresult sg_run_host(CUstream stream, const struct sg_host_work *host);
CUresult sg_run_batch(CUstream stream, const struct sg_batch_work *batch);
CUresult sg_occupy(CUstream stream, uint64_t length_ns);

CUresult sg_copy_bytes(const CUDA_MEMCPY3D *copy);
uint64_t sg_copied_bytes(const CUDA_MEMCPY3D *copy);
CUresult sg_set_bytes(const CUDA_MEMSET_NODE_PARAMS *set);

CUresult sg_pool_take(CUmemoryPool pool, CUcontext context, uint64_t bytes, CUdeviceptr *pointer);
CUresult sg_pool_give_back(CUdeviceptr pointer);
CUmemoryPool sg_default_pool(uint32_t device);

#endif
