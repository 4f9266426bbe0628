/* The driver as the stand-ins use it: one table of functions, each found again as NVIDIA's libraries find theirs.
 *
 * dlopen("libcuda.so.1"), dlsym(cuGetProcAddress_v2), then each function by name and version.  So a preloaded hook sees
 * the same look-ups as from the original.
 */
#ifndef STANDIN_DRIVER_H
#define STANDIN_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>

/* of cudaProfiler.h, which is in a package of its own */
typedef CUresult (*PFN_cuProfilerStart_v4000)(void);
typedef CUresult (*PFN_cuProfilerStop_v4000)(void);

struct driver {
#define DRIVER(name, version) PFN_##name##_v##version name;
#include "driver.def"
#undef DRIVER
    PFN_cuGetProcAddress_v12000 get_proc_address;
};

/* Filled by driver_load; a function that the driver does not have answers CUDA_ERROR_NOT_SUPPORTED. */
extern struct driver driver;

/* Load the driver, look everything up and call cuInit, once a process; the answer of cuInit, or
 * CUDA_ERROR_STUB_LIBRARY where there is no driver at all. */
CUresult driver_load(void);

#endif
