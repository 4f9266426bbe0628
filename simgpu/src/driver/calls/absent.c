/* Entry points that this device has no model for: they exist, and answer CUDA_ERROR_NOT_SUPPORTED (see README). */
#include "driver/abi/api.h"

#define API(symbol, base, version, ...)
#define PTSZ(symbol, base, version, per_thread_version, ...)
#define PTDS(symbol, base, version, per_thread_version, ...)
#define NONE(symbol, base, version)                                                                                    \
    CUresult symbol(void) {                                                                                            \
        return CUDA_ERROR_NOT_SUPPORTED;                                                                               \
    }
#include "driver/abi/api.def"
