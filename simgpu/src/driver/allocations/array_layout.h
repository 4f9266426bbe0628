/* CUDA arrays: memory with a layout that the program does not see. */
#ifndef SIMGPU_ARRAY_H
#define SIMGPU_ARRAY_H

#include "blocks.h"

struct CUarray_st {
    struct sg_handle handle;
    CUDA_ARRAY3D_DESCRIPTOR shape;
    struct sg_block *block;
    uint64_t pitch, rows; /* of one layer */
    bool owned;           /* it is a level of a mipmapped array */
};

#endif
