/* The time that the kernels of a function last. */
#ifndef SIMGPU_KERNEL_TIME_H
#define SIMGPU_KERNEL_TIME_H

#include "driver/base/objects.h"

/* Fills in the length and the partners from the name of the function. */
void sg_describe_function(struct CUfunc_st *function);

#endif
