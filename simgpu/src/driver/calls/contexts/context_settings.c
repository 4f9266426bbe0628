/* Contexts: limits, flags, peers, and the forms of creation that came later. */
#include <string.h>

#include "driver/base/thread.h"
#include "driver/work/work.h"

CUresult cuCtxCreate_v3(CUcontext *made, CUexecAffinityParam *affinity, int count, unsigned flags, CUdevice device) {
    if (count < 0 || (count > 0 && !affinity))
        return CUDA_ERROR_INVALID_VALUE;
    return count ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(made, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext *made, CUctxCreateParams *params, unsigned flags, CUdevice device) {
    if (params && (params->numExecAffinityParams || params->cigParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(made, flags, device);
}

CUresult cuCtxPushCurrent(CUcontext context) {
    return cuCtxPushCurrent_v2(context);
}

CUresult cuCtxPopCurrent(CUcontext *context) {
    return cuCtxPopCurrent_v2(context);
}

CUresult cuCtxAttach(CUcontext *context, unsigned flags) {
    return flags ? CUDA_ERROR_INVALID_VALUE : cuCtxGetCurrent(context);
}

CUresult cuCtxDetach(CUcontext context) {
    NEED_INIT();
    return sg_is(context, SG_CONTEXT_HANDLE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult given_or_current(CUcontext given, CUcontext *context) {
    NEED_INIT();
    if (!given)
        return sg_current(context);
    *context = given;
    return sg_usable(given);
}

CUresult cuCtxGetFlags(unsigned *flags) {
    CUcontext context;
    CUresult result = given_or_current(NULL, &context);
    if (result == CUDA_SUCCESS && flags)
        *flags = context->flags;
    return result == CUDA_SUCCESS && !flags ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuCtxSetFlags(unsigned flags) {
    CUcontext context;
    CUresult result = given_or_current(NULL, &context);
    if (result == CUDA_SUCCESS)
        context->flags = flags;
    return result;
}

CUresult cuCtxGetId(CUcontext given, unsigned long long *id) {
    CUcontext context;
    CUresult result = given_or_current(given, &context);
    if (result == CUDA_SUCCESS && id)
        *id = context->id;
    return result == CUDA_SUCCESS && !id ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuCtxGetApiVersion(CUcontext given, unsigned *version) {
    CUcontext context;
    CUresult result = given_or_current(given, &context);
    if (result == CUDA_SUCCESS && version)
        *version = context->api_version;
    return result == CUDA_SUCCESS && !version ? CUDA_ERROR_INVALID_VALUE : result;
}

static const size_t DEFAULT_LIMITS[] = {1024, 1u << 20, 8u << 20, 2, 2048, 128, 0, 0, 0};

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
    CUcontext context;
    CUresult result = given_or_current(NULL, &context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit >= COUNT(DEFAULT_LIMITS))
        return CUDA_ERROR_NOT_SUPPORTED;
    *value = context->limit[limit] ? context->limit[limit] : DEFAULT_LIMITS[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    CUcontext context;
    CUresult result = given_or_current(NULL, &context);
    if (result == CUDA_SUCCESS && limit >= COUNT(DEFAULT_LIMITS))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS)
        context->limit[limit] = value;
    return result;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config) {
    CUcontext context;
    CUresult result = given_or_current(NULL, &context);
    if (result == CUDA_SUCCESS && config)
        *config = context->cache_config;
    return result == CUDA_SUCCESS && !config ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    CUcontext context;
    CUresult result = given_or_current(NULL, &context);
    if (result == CUDA_SUCCESS && config > 3)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        context->cache_config = config;
    return result;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config) {
    CUcontext context;
    CUresult result = given_or_current(NULL, &context);
    if (result == CUDA_SUCCESS && config)
        *config = 1; /* four bytes a bank: the only way since Maxwell */
    return result == CUDA_SUCCESS && !config ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
    CUcontext context;
    CUresult result = given_or_current(NULL, &context);
    return result == CUDA_SUCCESS && config > 2 ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuCtxResetPersistingL2Cache(void) {
    CUcontext context;
    return given_or_current(NULL, &context);
}

/* ---- peers */

static CUresult find_peers(CUcontext peer, CUcontext *context) {
    CUresult result = given_or_current(NULL, context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sg_is(peer, SG_CONTEXT_HANDLE) || peer->device == (*context)->device)
        return CUDA_ERROR_INVALID_CONTEXT;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    CUcontext context;
    CUresult result = find_peers(peer, &context);
    if (result != CUDA_SUCCESS || flags)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    if (context->peers >> peer->device & 1)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context->peers |= 1ull << peer->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
    CUcontext context;
    CUresult result = find_peers(peer, &context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!(context->peers >> peer->device & 1))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~(1ull << peer->device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
    int can;
    CUresult result = cuDeviceCanAccessPeer(&can, from, to);
    if (result != CUDA_SUCCESS)
        return result;
    if (!value || from == to || attribute == 0 || attribute > 5)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute == 2 || attribute == 4; /* access and arrays; no native atomics, rank 0 */
    return CUDA_SUCCESS;
}

/* ---- a whole context as if it were a stream */

CUresult cuCtxRecordEvent(CUcontext given, CUevent event) {
    CUcontext context;
    CUresult result = given_or_current(given, &context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sg_is(event, SG_EVENT_HANDLE) || event->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (atomic_load(&context->all_captures))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return sg_record_event(event, context->legacy);
}

CUresult cuCtxWaitEvent(CUcontext given, CUevent event) {
    CUcontext context;
    CUresult result = given_or_current(given, &context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sg_is(event, SG_EVENT_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (atomic_load(&context->all_captures))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return sg_wait_event(context->legacy, event);
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device) {
    NEED_INIT();
    if (!supported || type > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || (uint32_t)device >= sg_visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *supported = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice device) {
    NEED_INIT();
    if (!properties)
        return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || (uint32_t)device >= sg_visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *properties = (CUdevprop){
        .maxThreadsPerBlock = 1024,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {2147483647, 65535, 65535},
        .sharedMemPerBlock = 49152,
        .totalConstantMemory = 65536,
        .SIMDWidth = 32,
        .memPitch = 2147483647,
        .regsPerBlock = 65536,
        .clockRate = (int)sg_client.map.header->card[sg_visible[device]].clock_khz,
        .textureAlign = 512,
    };
    return CUDA_SUCCESS;
}

/* ---- streams: attributes */

static CUresult find_attribute(CUstream given, CUstreamAttrID attribute, const void *value, CUstream *stream) {
    NEED_INIT();
    CUresult result = sg_stream(given, stream);
    if (result == CUDA_SUCCESS && (!value || attribute >= COUNT((*stream)->attribute)))
        result = CUDA_ERROR_INVALID_VALUE;
    return result;
}

CUresult cuStreamGetAttribute(CUstream given, CUstreamAttrID attribute, CUstreamAttrValue *value) {
    CUstream stream;
    CUresult result = find_attribute(given, attribute, value, &stream);
    if (result == CUDA_SUCCESS)
        *value = stream->attribute[attribute];
    return result;
}

CUresult cuStreamSetAttribute(CUstream given, CUstreamAttrID attribute, const CUstreamAttrValue *value) {
    CUstream stream;
    CUresult result = find_attribute(given, attribute, value, &stream);
    if (result == CUDA_SUCCESS)
        stream->attribute[attribute] = *value;
    return result;
}

CUresult cuStreamCopyAttributes(CUstream to_given, CUstream from_given) {
    CUstream to, from;
    CUresult result = find_attribute(to_given, 0, &to, &to);
    if (result == CUDA_SUCCESS)
        result = find_attribute(from_given, 0, &from, &from);
    if (result == CUDA_SUCCESS)
        memcpy(to->attribute, from->attribute, sizeof to->attribute);
    return result;
}
