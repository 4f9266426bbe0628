/* The contexts of this process. */
#ifndef SIMGPU_CONTEXT_H
#define SIMGPU_CONTEXT_H

#include "driver/base/objects.h"

/* Some context of the device, or NULL. */
CUcontext sg_context_on(uint32_t device);

#endif
