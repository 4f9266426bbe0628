/* Libraries: each kernel of a library is a function in every context that uses it. */
#ifndef SIMGPU_LIBRARY_H
#define SIMGPU_LIBRARY_H

#include "driver/base/objects.h"

CUfunction sg_function_of_kernel(void *kernel, CUcontext context);
/* What was set of the kernel on the card. */
struct sg_attributes *sg_attributes_of_kernel(CUkernel kernel, uint32_t card);

#endif
