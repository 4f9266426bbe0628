/* The attributes of functions and kernels: defaults that fit the card, and what a program has set. */
#ifndef SIMGPU_ATTRIBUTES_H
#define SIMGPU_ATTRIBUTES_H

#include "driver/base/objects.h"
#include "shared/file/card_limits.h"

const struct sg_device_card *sg_card_of_function(CUfunction function);
int sg_function_attribute(CUfunction function, CUfunction_attribute attribute);
/* The most bytes of dynamic shared memory that a launch of the function may ask for. */
unsigned sg_shared_limit(CUfunction function);

#endif
