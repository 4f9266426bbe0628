/* Bytes: they are copied and set here, in memory that the device would have. */
#ifndef SIMGPU_BYTES_H
#define SIMGPU_BYTES_H

#include "blocks.h"

CUresult sg_copy_bytes(const CUDA_MEMCPY3D *copy);
uint64_t sg_copied_bytes(const CUDA_MEMCPY3D *copy);
CUresult sg_set_bytes(const CUDA_MEMSET_NODE_PARAMS *set);

/* Managed bytes of a context that a copy touches; so many of them were never touched before. */
struct sg_touched {
    uint64_t bytes, fresh;
};
struct sg_touched sg_touch_by_copy(CUcontext context, const CUDA_MEMCPY3D *copy);
struct sg_touched sg_touch_by_set(CUcontext context, const CUDA_MEMSET_NODE_PARAMS *set);

#endif
