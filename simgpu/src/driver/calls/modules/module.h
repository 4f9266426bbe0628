/* Modules: a module is loaded from an image, into a context or (NULL) into none. */
#ifndef SIMGPU_MODULE_H
#define SIMGPU_MODULE_H

#include "driver/base/objects.h"

CUresult sg_load_module(CUmodule *module, const void *image, CUcontext context);

#endif
