/* Bytes: they are copied and set here, in memory that the device would have. */
#ifndef SIMGPU_BYTES_H
#define SIMGPU_BYTES_H

#include "driver/abi/api.h"

CUresult sg_copy_bytes(const CUDA_MEMCPY3D *copy);
uint64_t sg_copied_bytes(const CUDA_MEMCPY3D *copy);
CUresult sg_set_bytes(const CUDA_MEMSET_NODE_PARAMS *set);

#endif
