/* The entry points of stream capture. */
#include "driver/base/thread.h"
#include "driver/graphs/capture.h"

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    return sg_begin_capture(stream, mode, NULL, NULL, 0);
}

CUresult cuStreamBeginCapture(CUstream stream) {
    return sg_begin_capture(stream, 0, NULL, NULL, 0);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *before,
                                     const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode) {
    (void)edges;
    if (!sg_is(graph, SG_GRAPH_HANDLE) || (count && !before))
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNode *nodes = (CUgraphNode *)(uintptr_t)before;
    return sg_begin_capture(stream, mode, graph, nodes, count);
}

static CUresult find(CUstream given, CUstream *stream, const void *out) {
    NEED_INIT();
    CUresult result = sg_stream(given, stream);
    return result == CUDA_SUCCESS && !out ? CUDA_ERROR_INVALID_VALUE : result;
}

/* Asking about the legacy stream is an error while a blocking one captures, but breaks nothing. */
static bool is_implicit(CUstream stream) {
    return stream->legacy && atomic_load(&stream->context->captures) > 0;
}

CUresult cuStreamIsCapturing(CUstream given, CUstreamCaptureStatus *status) {
    CUstream stream;
    CUresult result = find(given, &stream, status);
    if (result != CUDA_SUCCESS)
        return result;
    *status = sg_view_capture(stream).status;
    return is_implicit(stream) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo(CUstream given, CUstreamCaptureStatus *status, cuuint64_t *id) {
    return cuStreamGetCaptureInfo_v2(given, status, id, NULL, NULL, NULL);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream given, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **before, size_t *count) {
    CUstream stream;
    CUresult result = find(given, &stream, status);
    if (result != CUDA_SUCCESS)
        return result;
    struct sg_capture_view view = sg_view_capture(stream);
    *status = view.status;
    if (id && view.status)
        *id = view.id;
    if (graph && view.status)
        *graph = view.graph;
    if (before && view.status)
        *before = stream->frontier;
    if (count && view.status)
        *count = stream->frontier_count;
    return is_implicit(stream) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                   const CUgraphNode **before, const CUgraphEdgeData **edges, size_t *count) {
    if (edges)
        *edges = NULL; /* all edges are plain */
    return cuStreamGetCaptureInfo_v2(stream, status, id, graph, before, count);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream given, CUgraphNode *nodes, size_t count, unsigned flags) {
    CUstream stream;
    CUresult result = find(given, &stream, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (flags > 1 || (count && !nodes))
        return CUDA_ERROR_INVALID_VALUE;
    return sg_change_frontier(stream, nodes, count, flags == 1);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges,
                                              size_t count, unsigned flags) {
    (void)edges;
    return cuStreamUpdateCaptureDependencies(stream, nodes, count, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    NEED_INIT();
    if (!mode || *mode > 2)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t before = sg_thread.capture_mode;
    sg_thread.capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream given, CUgraph *graph) {
    CUstream stream;
    NEED_INIT();
    CUresult result = sg_stream(given, &stream);
    if (result != CUDA_SUCCESS || !graph)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    return sg_end_capture(stream, graph);
}
