/* Stream capture: while a stream captures, its work is kept as nodes of a graph.
 *
 * The rule: a capture forbids the calls that could break it. */
#ifndef SIMGPU_CAPTURE_H
#define SIMGPU_CAPTURE_H

#include "driver/base/objects.h"
#include "graph.h"

static inline bool sg_is_capturing(CUstream stream) {
    return atomic_load_explicit(&stream->capture, memory_order_relaxed) != NULL;
}

/* A capture forbids waiting for its streams, and calls that could break any capture of this process. */
CUresult sg_may_wait_for(CUstream stream);
CUresult sg_may_use(CUstream stream);
CUresult sg_may_ask_event(CUevent event);
CUresult sg_check_unsafe_call(void);
/* The current context for a call that a capture may forbid. */
CUresult sg_begin_unsafe(CUcontext *context);
CUresult sg_synchronize_context(CUcontext context);

/* Adds work as a node to the capture of the stream. */
CUresult sg_capture_work(CUstream stream, const struct sg_work *work);
CUresult sg_capture_event(CUstream stream, CUevent event);
CUresult sg_capture_wait(CUstream stream, CUevent event);
void sg_forget_captured(CUevent event);

/* The present capture of a stream; the status is a value of CUstreamCaptureStatus. */
struct sg_capture_view {
    unsigned status;
    uint64_t id;
    CUgraph graph;
};
struct sg_capture_view sg_view_capture(CUstream stream);
CUresult sg_begin_capture(CUstream stream, unsigned mode, CUgraph graph, CUgraphNode *before, size_t count);
CUresult sg_end_capture(CUstream stream, CUgraph *graph);
void sg_leave_capture(CUstream stream);
CUresult sg_change_frontier(CUstream stream, CUgraphNode *nodes, size_t count, bool replace);

/* The nodes that the next node of the stream will wait for. */
bool sg_set_frontier(CUstream stream, CUgraphNode *nodes, size_t count);
bool sg_extend_frontier(CUstream stream, CUgraphNode *nodes, size_t count);

#endif
