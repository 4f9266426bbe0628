/* Streams, events, capture and graphs: each is one call of the driver. */
#include "runtime.h"

WITH_CONTEXT(cudaStreamCreate, (cudaStream_t * stream), cuStreamCreate(stream, 0))
WITH_CONTEXT(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), cuStreamCreate(stream, flags))
WITH_CONTEXT(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),
             cuStreamCreateWithPriority(stream, flags, priority))
WITH_CONTEXT(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy(stream))
WITH_CONTEXT(cudaStreamGetPriority, (cudaStream_t stream, int *priority), cuStreamGetPriority(stream, priority))
WITH_CONTEXT(cudaStreamGetFlags, (cudaStream_t stream, unsigned *flags), cuStreamGetFlags(stream, flags))
WITH_CONTEXT(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id), cuStreamGetId(stream, id))
WITH_CONTEXT(cudaStreamQuery, (cudaStream_t stream), cuStreamQuery(stream))
WITH_CONTEXT(cudaStreamSynchronize, (cudaStream_t stream), cuStreamSynchronize(stream))
WITH_CONTEXT(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
             cuStreamWaitEvent(stream, event, flags))
WITH_CONTEXT(cudaStreamAddCallback,
             (cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned flags),
             cuStreamAddCallback(stream, (CUstreamCallback)(void *)callback, data, flags))
WITH_CONTEXT(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *data),
             cuLaunchHostFunc(stream, function, data))

WITH_CONTEXT(cudaEventCreate, (cudaEvent_t * event), cuEventCreate(event, 0))
WITH_CONTEXT(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), cuEventCreate(event, flags))
WITH_CONTEXT(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy(event))
WITH_CONTEXT(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end), cuEventElapsedTime(ms, start, end))
WITH_CONTEXT(cudaEventQuery, (cudaEvent_t event), cuEventQuery(event))
WITH_CONTEXT(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), cuEventRecord(event, stream))
WITH_CONTEXT(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned flags),
             cuEventRecordWithFlags(event, stream, flags))
WITH_CONTEXT(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize(event))

WITH_CONTEXT(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
             cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode))
WITH_CONTEXT(cudaStreamBeginCaptureToGraph,
             (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
              const cudaGraphEdgeData *edges, size_t count, enum cudaStreamCaptureMode mode),
             cuStreamBeginCaptureToGraph(stream, graph, dependencies, (const CUgraphEdgeData *)edges, count,
                                         (CUstreamCaptureMode)mode))
WITH_CONTEXT(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph), cuStreamEndCapture(stream, graph))
WITH_CONTEXT(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
             cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status))
WITH_CONTEXT(cudaStreamGetCaptureInfo,
             (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
              const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *count),
             cuStreamGetCaptureInfo(stream, (CUstreamCaptureStatus *)status, (cuuint64_t *)id, graph, dependencies,
                                    (const CUgraphEdgeData **)edges, count))
WITH_CONTEXT(cudaStreamUpdateCaptureDependencies,
             (cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *edges, size_t count,
              unsigned flags),
             cuStreamUpdateCaptureDependencies(stream, dependencies, (const CUgraphEdgeData *)edges, count, flags))
WITHOUT_CONTEXT(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
                cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))

WITH_CONTEXT(cudaGraphCreate, (cudaGraph_t * graph, unsigned flags), cuGraphCreate(graph, flags))
WITH_CONTEXT(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph))
WITH_CONTEXT(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char *path, unsigned flags),
             cuGraphDebugDotPrint(graph, path, flags))
WITH_CONTEXT(cudaGraphExecDestroy, (cudaGraphExec_t graph), cuGraphExecDestroy(graph))
WITH_CONTEXT(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
             cuGraphGetNodes(graph, nodes, count))
WITH_CONTEXT(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
             cuGraphGetRootNodes(graph, nodes, count))
WITH_CONTEXT(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType *type),
             cuGraphNodeGetType(node, (CUgraphNodeType *)type))
WITH_CONTEXT(cudaGraphNodeGetDependencies,
             (cudaGraphNode_t node, cudaGraphNode_t *dependencies, cudaGraphEdgeData *edges, size_t *count),
             cuGraphNodeGetDependencies(node, dependencies, (CUgraphEdgeData *)edges, count))
WITH_CONTEXT(cudaGraphInstantiate, (cudaGraphExec_t * made, cudaGraph_t graph, unsigned long long flags),
             cuGraphInstantiateWithFlags(made, graph, flags))
WITH_CONTEXT(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * made, cudaGraph_t graph, unsigned long long flags),
             cuGraphInstantiateWithFlags(made, graph, flags))
WITH_CONTEXT(cudaGraphExecUpdate, (cudaGraphExec_t graph, cudaGraph_t from, cudaGraphExecUpdateResultInfo *info),
             cuGraphExecUpdate(graph, from, (CUgraphExecUpdateResultInfo *)info))
WITH_CONTEXT(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t stream), cuGraphLaunch(graph, stream))
WITH_CONTEXT(cudaGraphUpload, (cudaGraphExec_t graph, cudaStream_t stream), cuGraphUpload(graph, stream))
WITH_CONTEXT(cudaGraphRetainUserObject, (cudaGraph_t graph, cudaUserObject_t object, unsigned count, unsigned flags),
             cuGraphRetainUserObject(graph, object, count, flags))
WITHOUT_CONTEXT(cudaUserObjectCreate,
                (cudaUserObject_t * object, void *data, cudaHostFn_t destroy, unsigned count, unsigned flags),
                cuUserObjectCreate(object, data, destroy, count, flags))
WITHOUT_CONTEXT(cudaUserObjectRelease, (cudaUserObject_t object, unsigned count), cuUserObjectRelease(object, count))
WITHOUT_CONTEXT(cudaUserObjectRetain, (cudaUserObject_t object, unsigned count), cuUserObjectRetain(object, count))

cudaError_t CUDARTAPI cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
                                                       unsigned value, unsigned flags) {
    CUcontext context = NULL;
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess)
        return entered;
    driver.cuCtxGetCurrent(&context);
    return runtime_done(driver.cuGraphConditionalHandleCreate((CUgraphConditionalHandle *)handle, graph, context, value,
                                                              flags));
}

/* A kernel node names a host function, which the driver does not know: no framework here adds one by this call. */
cudaError_t CUDARTAPI cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                                       const cudaGraphEdgeData *edges, size_t count,
                                       struct cudaGraphNodeParams *parameters) {
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess)
        return entered;
    if (parameters->type == cudaGraphNodeTypeKernel)
        return runtime_done(CUDA_ERROR_NOT_SUPPORTED);
    return runtime_done(driver.cuGraphAddNode(node, graph, dependencies, (const CUgraphEdgeData *)edges, count,
                                              (CUgraphNodeParams *)parameters));
}
