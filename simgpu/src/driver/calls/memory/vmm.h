/* What physical memory an address is mapped to. */
#ifndef SIMGPU_VMM_H
#define SIMGPU_VMM_H

#include "driver/abi/api.h"

struct sg_mapped {
    uint64_t start, bytes;
    uint32_t device, handle_types;
};

/* False if nothing is mapped there. */
bool sg_find_mapped(CUdeviceptr pointer, struct sg_mapped *found);

#endif
