/* The entry points that set memory: 8, 16 and 32 bits wide, in one and two dimensions, now or on a stream. */
#include "driver/base/queue.h"
#include "driver/base/thread.h"
#include "driver/work/work.h"

static CUresult set(CUstream given, bool wait, const CUDA_MEMSET_NODE_PARAMS *params) {
    CUstream stream;
    NEED_INIT();
    CUresult result = sg_stream(given, &stream);
    if (result == CUDA_SUCCESS)
        result = sg_submit(stream, &(struct sg_work){.type = SG_NODE_SET, .set = *params});
    return result == CUDA_SUCCESS && wait ? sg_wait_stream(stream) : result;
}

/* the unused high bits of a narrow value must not reach the neighbours */
#define SET_LINE(name, value_type, bytes)                                                                              \
    CUresult name##_v2(CUdeviceptr target, value_type value, size_t count) {                                           \
        return set(NULL, true, &(CUDA_MEMSET_NODE_PARAMS){target, 0, value, bytes, count, 1});                         \
    }                                                                                                                  \
    CUresult name##Async(CUdeviceptr target, value_type value, size_t count, CUstream stream) {                        \
        return set(stream, false, &(CUDA_MEMSET_NODE_PARAMS){target, 0, value, bytes, count, 1});                      \
    }

#define SET_PLANE(name, value_type, bytes)                                                                             \
    CUresult name##_v2(CUdeviceptr target, size_t pitch, value_type value, size_t width, size_t height) {              \
        return set(NULL, true, &(CUDA_MEMSET_NODE_PARAMS){target, pitch, value, bytes, width, height});                \
    }                                                                                                                  \
    CUresult name##Async(CUdeviceptr target, size_t pitch, value_type value, size_t width, size_t height,              \
                         CUstream stream) {                                                                            \
        return set(stream, false, &(CUDA_MEMSET_NODE_PARAMS){target, pitch, value, bytes, width, height});             \
    }

SET_LINE(cuMemsetD8, unsigned char, 1)
SET_LINE(cuMemsetD16, unsigned short, 2)
SET_LINE(cuMemsetD32, unsigned, 4)
SET_PLANE(cuMemsetD2D8, unsigned char, 1)
SET_PLANE(cuMemsetD2D16, unsigned short, 2)
SET_PLANE(cuMemsetD2D32, unsigned, 4)
