/* The wrappers of streams that end, and of launches whose stream stands in a structure. */
#include "wrappers/wrap.h"

EXPORT CUresult cuStreamDestroy_v2(CUstream hStream) { END_STREAM(cuStreamDestroy_v2, hStream); }

EXPORT CUresult cuStreamDestroy(CUstream hStream) { END_STREAM(cuStreamDestroy, hStream); }

/* With the flag it is two calls in one: the second is cuGraphUpload. */
#define INSTANTIATE(function, own_default)                                                                              \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    bool uploads = instantiateParams && instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;                  \
    CUstream stream = uploads ? instantiateParams->hUploadStream : NULL;                                                \
    const struct key key = plain_key((uintptr_t)&driver.function, 0);                                                   \
    struct slot *slot = uploads ? launch_begin(stream ? stream : own_default, &key) : NULL;                               \
    if (uploads && IS_REFUSED(slot))                                                                                    \
        return CUDA_ERROR_NOT_PERMITTED;                                                                                \
    CUresult result = driver.function(phGraphExec, hGraph, instantiateParams);                                          \
    launch_end(slot);                                                                                                   \
    return result

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                             CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    INSTANTIATE(cuGraphInstantiateWithParams, NULL);
}

EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
                                                  CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams) {
    INSTANTIATE(cuGraphInstantiateWithParams_ptsz, CU_STREAM_PER_THREAD);
}

/* One kernel over several GPUs. */
EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList, unsigned int numDevices,
                                                     unsigned int flags) {
    if (!DRIVER_HAS(cuLaunchCooperativeKernelMultiDevice))
        return CUDA_ERROR_NOT_FOUND;
    CUstream streams[NVSHARE_SHARED_MEMORY_MOST_GPUS];
    unsigned int count = launchParamsList && numDevices <= NVSHARE_SHARED_MEMORY_MOST_GPUS ? numDevices : 0;
    for (unsigned int i = 0; i < count; i++)
        streams[i] = launchParamsList[i].hStream;
    struct slot *slot = launch_begin_together(streams, count);
    CUresult result = driver.cuLaunchCooperativeKernelMultiDevice(launchParamsList, numDevices, flags);
    launch_end_together(slot, streams, count);
    return result;
}
