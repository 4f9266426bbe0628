/* The other forms of a launch: with a configuration, cooperatively, on several devices, as CUDA 3 did. */
#include <string.h>

#include "driver/base/thread.h"
#include "shared/file/card_limits.h"

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                          config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, params, extra);
}

/* All blocks of a cooperative kernel must be on the device at once. */
static bool fits_at_once(CUfunction function, CUstream given, uint64_t blocks, uint64_t threads, unsigned shared_bytes) {
    CUstream stream;
    int held;
    if (sg_stream(given, &stream) != CUDA_SUCCESS || threads == 0 || threads > SG_BLOCK_THREADS ||
        cuOccupancyMaxActiveBlocksPerMultiprocessor(&held, function, (int)threads, shared_bytes) != CUDA_SUCCESS)
        return true; /* the launch itself says what is wrong */
    return blocks <= sg_client.map.header->card[stream->context->device].multiprocessors * (uint64_t)held;
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void **params) {
    NEED_INIT();
    if (!fits_at_once(function, stream, (uint64_t)grid_x * grid_y * grid_z, (uint64_t)block_x * block_y * block_z,
                      shared_bytes))
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
