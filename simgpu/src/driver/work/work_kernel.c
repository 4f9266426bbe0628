/* Kernels: how long one takes the device, and with whom. */
#include "work.h"

#include <string.h>

#include "driver/base/queue.h"

#define PARAM_BUFFER ((void *)1)
#define PARAM_END ((void *)0)

uint64_t sg_kernel_length(const struct sg_kernel_work *kernel) {
    uint64_t length = kernel->function->length_ns;
    if (!kernel->function->length_is_param)
        return length;
    if (kernel->params && kernel->params[0])
        memcpy(&length, kernel->params[0], sizeof length);
    for (void **extra = kernel->extra; extra && extra[0] != PARAM_END; extra += 2)
        if (extra[0] == PARAM_BUFFER)
            memcpy(&length, extra[1], sizeof length);
    return length;
}

CUresult sg_run_kernel(CUstream stream, const struct sg_kernel_work *kernel) {
    const CUfunction function = kernel->function;
    struct sg_op op = {.kind = function->partners ? SG_TOGETHER : SG_KERNEL, .length_ns = kernel->length_ns};
    if (function->partners)
        op.target = function->group_key, op.sequence = function->partners;
    return op.length_ns || function->partners ? sg_push(stream, &op, NULL, NULL) : CUDA_SUCCESS;
}
