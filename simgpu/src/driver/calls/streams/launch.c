/* Every way to launch a kernel ends in `launch`. A kernel of length 0 puts nothing into a queue: it cannot be told apart
 * from one that has run, and so its launch costs what checking the arguments costs. */
#include "driver/base/thread.h"
#include "driver/calls/modules/attributes.h"
#include "driver/calls/modules/library.h"
#include "driver/graphs/capture.h"
#include "driver/work/work.h"

static CUresult launch_slowly(CUstream stream, struct sg_kernel_work *kernel) {
    kernel->length_ns = sg_kernel_length(kernel);
    return sg_submit(stream, &(struct sg_work){.type = SG_NODE_KERNEL, .kernel = *kernel});
}

static inline bool is_shape(unsigned x, unsigned y, unsigned z) {
    return x && y && z;
}

/* A kernel of length 0 on a stream that does not capture: nothing is to be done. */
static inline bool is_idle(const struct CUfunc_st *function, CUstream stream) {
    return function->is_idle && !sg_is_capturing(stream) && !sg_stretches &&
           !atomic_load_explicit(&stream->context->captures, memory_order_relaxed);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream given, void **params,
                        void **extra) {
    CUstream stream;
    NEED_INIT();
    CUresult result = sg_stream(given, &stream);
    if (UNLIKELY(result != CUDA_SUCCESS))
        return result;
    if (UNLIKELY(sg_is(function, SG_KERNEL_HANDLE)))
        function = sg_function_of_kernel(function, stream->context);
    if (UNLIKELY(!sg_is(function, SG_FUNCTION_HANDLE)))
        return CUDA_ERROR_INVALID_HANDLE;
    if (UNLIKELY(!is_shape(grid_x, grid_y, grid_z) || !is_shape(block_x, block_y, block_z) ||
                 (uint64_t)block_x * block_y * block_z > 1024 || (params && extra) ||
                 (shared_bytes > SG_SHARED_PER_BLOCK && shared_bytes > sg_shared_limit(function))))
        return CUDA_ERROR_INVALID_VALUE;
    if (LIKELY(is_idle(function, stream))) {
        sg_thread.zero_launches++;
        return CUDA_SUCCESS;
    }
    struct sg_kernel_work kernel = {
        .function = function,
        .grid = {grid_x, grid_y, grid_z},
        .block = {block_x, block_y, block_z},
        .shared_bytes = shared_bytes,
        .params = params,
        .extra = extra,
    };
    return launch_slowly(stream, &kernel);
}
