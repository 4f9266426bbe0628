/* Kernels of libraries: each is a function in every context it is used in. */
#ifndef SIMGPU_LIBRARY_H
#define SIMGPU_LIBRARY_H

#include "driver/base/objects.h"

CUfunction sg_function_of_kernel(void *kernel, CUcontext context);

#endif
