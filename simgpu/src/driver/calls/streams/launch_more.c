/* The other ways to launch: with a configuration, cooperatively, on several devices, as CUDA 3 did; host functions,
 * callbacks and stream memory operations.
 */
#include <string.h>

#include "driver/allocations/blocks.h"
#include "driver/base/thread.h"
#include "driver/work/work.h"

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                          config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, params, extra);
}

/* All blocks of a cooperative kernel must fit at once: two of 1,024 threads a multiprocessor. */
static bool fits_at_once(CUstream given, uint64_t blocks, uint64_t threads) {
    CUstream stream;
    if (sg_stream(given, &stream) != CUDA_SUCCESS || threads == 0)
        return true; /* the launch itself says what is wrong */
    uint64_t multiprocessors = sg_client.map.header->card[stream->context->device].multiprocessors;
    return blocks <= multiprocessors * (2048 / (threads > 2048 ? 2048 : threads));
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void **params) {
    NEED_INIT();
    if (!fits_at_once(stream, (uint64_t)grid_x * grid_y * grid_z, (uint64_t)block_x * block_y * block_z))
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params,
                          NULL);
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags) {
    NEED_INIT();
    if (!list || count == 0 || count > sg_visible_count || flags > 3)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        const CUDA_LAUNCH_PARAMS *one = &list[i];
        if ((uintptr_t)one->hStream <= 2)
            return CUDA_ERROR_INVALID_VALUE; /* default streams are not allowed here */
        CUresult result = cuLaunchCooperativeKernel(one->function, one->gridDimX, one->gridDimY, one->gridDimZ,
                                                    one->blockDimX, one->blockDimY, one->blockDimZ,
                                                    one->sharedMemBytes, one->hStream, one->kernelParams);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

/* ---- of CUDA 3: the shape is the function's, the parameters were set one by one */

static CUresult function_or(CUfunction function) {
    NEED_INIT();
    return sg_is(function, SG_FUNCTION_HANDLE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z) {
    CUresult result = function_or(function);
    if (result != CUDA_SUCCESS)
        return result;
    if (x < 1 || y < 1 || z < 1)
        return CUDA_ERROR_INVALID_VALUE;
    const unsigned block[3] = {(unsigned)x, (unsigned)y, (unsigned)z};
    memcpy(function->block, block, sizeof block);
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes) {
    (void)bytes;
    return function_or(function);
}

CUresult cuParamSetSize(CUfunction function, unsigned bytes) {
    CUresult result = function_or(function);
    return result == CUDA_SUCCESS && bytes > 4096 ? CUDA_ERROR_INVALID_VALUE : result;
}

/* only the first 8 bytes can matter here: a kernel's length */
CUresult cuParamSetv(CUfunction function, int offset, void *bytes, unsigned count) {
    CUresult result = function_or(function);
    if (result != CUDA_SUCCESS || offset < 0 || !bytes)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    if ((size_t)offset + count <= sizeof function->param)
        memcpy((char *)&function->param + offset, bytes, count);
    return CUDA_SUCCESS;
}

CUresult cuParamSeti(CUfunction function, int offset, unsigned value) {
    return cuParamSetv(function, offset, &value, sizeof value);
}

CUresult cuParamSetf(CUfunction function, int offset, float value) {
    return cuParamSetv(function, offset, &value, sizeof value);
}

CUresult cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream) {
    CUresult result = function_or(function);
    if (result != CUDA_SUCCESS)
        return result;
    if (width < 1 || height < 1 || !function->block[0])
        return CUDA_ERROR_INVALID_VALUE;
    void *params[] = {&function->param};
    return cuLaunchKernel(function, (unsigned)width, (unsigned)height, 1, function->block[0], function->block[1],
                          function->block[2], 0, stream, params, NULL);
}

CUresult cuLaunchGrid(CUfunction function, int width, int height) {
    return cuLaunchGridAsync(function, width, height, NULL);
}

CUresult cuLaunch(CUfunction function) {
    return cuLaunchGridAsync(function, 1, 1, NULL);
}

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
