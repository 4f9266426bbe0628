/* Work that a stream is given: done now, or kept as a graph's node while the stream captures. */
#ifndef SIMGPU_CAPTURE_H
#define SIMGPU_CAPTURE_H

#include "driver.h"

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
};

struct sg_kernel_work {
    CUfunction function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    uint64_t length_ns;
};

struct sg_work {
    enum sg_node_type type;
    union {
        struct sg_kernel_work kernel;
        CUevent event;
    };
};

/* Does the work on the stream, or adds it to the capture the stream is in. */
CUresult sg_submit(CUstream stream, const struct sg_work *work);

static inline bool sg_is_capturing(CUstream stream) {
    return atomic_load_explicit(&stream->capture, memory_order_relaxed) != NULL;
}

CUresult sg_capture_event(CUstream stream, CUevent event);
CUresult sg_capture_wait(CUstream stream, CUevent event);
void sg_forget_captured(CUevent event);
CUresult sg_may_ask_event(CUevent event);

CUresult sg_record_event(CUevent event, CUstream stream);
CUresult sg_wait_event(CUstream stream, CUevent event);
CUresult sg_run_kernel(CUstream stream, const struct sg_kernel_work *kernel);

#endif
