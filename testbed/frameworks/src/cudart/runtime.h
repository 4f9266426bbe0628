/* The CUDA runtime's own state: the calling thread's device and last error; host functions and the kernels they name. */
#ifndef STANDIN_RUNTIME_H
#define STANDIN_RUNTIME_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "driver/driver.h"

/* Make sure that the driver is loaded; no context is made. */
cudaError_t runtime_load(void);

/* Make sure that the thread has a current context: its own, or the primary context of its device. */
cudaError_t runtime_enter(void);

/* Remember an error as the thread's last one, and return it.  The two enumerations share their values. */
cudaError_t runtime_done(CUresult result);

/* The primary context of a device, retained once a process. */
CUresult runtime_primary(int device, CUcontext *context);

/* The kernel behind a host function, a cudaKernel_t or a CUfunction. */
cudaError_t runtime_kernel(const void *function, CUfunction *kernel);

/* The device address of a registered variable. */
cudaError_t runtime_symbol(const void *symbol, CUdeviceptr *address, size_t *bytes);

/* A function of the runtime that is one call of the driver, with a context or without one. */
#define WITH_CONTEXT(name, parameters, call)                                                                           \
    cudaError_t CUDARTAPI name parameters {                                                                            \
        cudaError_t entered = runtime_enter();                                                                         \
        return entered != cudaSuccess ? entered : runtime_done(driver.call);                                           \
    }
#define WITHOUT_CONTEXT(name, parameters, call)                                                                        \
    cudaError_t CUDARTAPI name parameters {                                                                            \
        cudaError_t loaded = runtime_load();                                                                           \
        return loaded != cudaSuccess ? loaded : runtime_done(driver.call);                                             \
    }

#define POINTER(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

#endif
