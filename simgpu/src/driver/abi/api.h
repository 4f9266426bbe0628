/* The prototypes of all functions that libcuda.so.1 exports.
 *
 * The rule: they are generated from api.def, the only table of the driver API. */
#ifndef SIMGPU_API_H
#define SIMGPU_API_H

#include "types.h"

#define API(symbol, base, version, ...) SG_EXPORT CUresult symbol(__VA_ARGS__);
#define PTSZ(symbol, base, version, per_thread_version, ...)                                                           \
    SG_EXPORT CUresult symbol(__VA_ARGS__);                                                                            \
    SG_EXPORT CUresult symbol##_ptsz(__VA_ARGS__);
#define PTDS(symbol, base, version, per_thread_version, ...)                                                           \
    SG_EXPORT CUresult symbol(__VA_ARGS__);                                                                            \
    SG_EXPORT CUresult symbol##_ptds(__VA_ARGS__);
#ifdef SIMGPU_WITH_CUDA_H
#define NONE(symbol, base, version)
#else
#define NONE(symbol, base, version) SG_EXPORT CUresult symbol(void);
#endif
#include "api.def"
#undef API
#undef PTSZ
#undef PTDS
#undef NONE

#endif
