/* How long the kernels of a function last. */
#ifndef SIMGPU_KERNEL_TIME_H
#define SIMGPU_KERNEL_TIME_H

#include "driver/base/objects.h"

/* Fills in length and partners from the function's name. */
void sg_describe_function(struct CUfunc_st *function);

#endif
