/* What a stream is given besides kernels and copies: host functions, callbacks and stream memory operations. */
#include "driver/allocations/blocks.h"
#include "driver/base/thread.h"
#include "driver/work/work.h"

/* ---- on the host, in the order of a stream */

static CUresult submit_host(CUstream given, const struct sg_host_work *host) {
    CUstream stream;
    NEED_INIT();
    CUresult result = sg_stream(given, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!host->function && !host->callback)
        return CUDA_ERROR_INVALID_VALUE;
    return sg_submit(stream, &(struct sg_work){.type = SG_NODE_HOST, .host = *host});
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
    return submit_host(stream, &(struct sg_host_work){.function = function, .data = data});
}

CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn function, void *data, unsigned mode) {
    if (mode > 1)
        return CUDA_ERROR_INVALID_VALUE;
    return cuLaunchHostFunc(stream, function, data);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data, unsigned flags) {
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    return submit_host(stream, &(struct sg_host_work){.callback = callback, .data = data});
}

/* ---- stream memory operations */

#define MOST_OPERATIONS 256u
enum operation { WAIT_32 = 1, WRITE_32 = 2, FLUSH = 3, WAIT_64 = 4, WRITE_64 = 5, BARRIER = 6 };

static bool is_usable(const CUstreamBatchMemOpParams *operation) {
    unsigned type = operation->operation;
    if (type == FLUSH || type == BARRIER)
        return true;
    uint64_t width = type == WAIT_64 || type == WRITE_64 ? 8 : 4;
    return type >= WAIT_32 && type <= WRITE_64 && operation->waitValue.address % width == 0 &&
           sg_find_block(operation->waitValue.address) != NULL;
}

CUresult cuStreamBatchMemOp_v2(CUstream given, unsigned count, CUstreamBatchMemOpParams *operations, unsigned flags) {
    CUstream stream;
    NEED_INIT();
    CUresult result = sg_stream(given, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!operations || count > MOST_OPERATIONS || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (!is_usable(&operations[i]))
            return CUDA_ERROR_INVALID_VALUE;
    return sg_submit(stream, &(struct sg_work){.type = SG_NODE_BATCH, .batch = {count, operations}});
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations, unsigned flags) {
    return cuStreamBatchMemOp_v2(stream, count, operations, flags);
}

static CUresult one(CUstream stream, enum operation type, CUdeviceptr address, uint64_t value, unsigned flags) {
    CUstreamBatchMemOpParams operation = {.pad = {0}};
    operation.waitValue.operation = type;
    operation.waitValue.address = address;
    operation.waitValue.value64 = value;
    operation.waitValue.flags = flags;
    return cuStreamBatchMemOp_v2(stream, 1, &operation, 0);
}

#define VALUE_OPERATION(name, type, value_type)                                                                        \
    CUresult name##_v2(CUstream stream, CUdeviceptr address, value_type value, unsigned flags) {                       \
        return one(stream, type, address, value, flags);                                                               \
    }                                                                                                                  \
    CUresult name(CUstream stream, CUdeviceptr address, value_type value, unsigned flags) {                            \
        return one(stream, type, address, value, flags);                                                               \
    }

VALUE_OPERATION(cuStreamWaitValue32, WAIT_32, cuuint32_t)
VALUE_OPERATION(cuStreamWaitValue64, WAIT_64, cuuint64_t)
VALUE_OPERATION(cuStreamWriteValue32, WRITE_32, cuuint32_t)
VALUE_OPERATION(cuStreamWriteValue64, WRITE_64, cuuint64_t)
