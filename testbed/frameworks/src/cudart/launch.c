/* Launches, and what is asked about kernels; libraries that a program loads by itself. */
#include <string.h>

#include "runtime.h"

static cudaError_t kernel_for(const void *function, CUfunction *kernel) {
    cudaError_t entered = runtime_enter();
    return entered != cudaSuccess ? entered : runtime_kernel(function, kernel);
}

cudaError_t CUDARTAPI cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                                       cudaStream_t stream) {
    CUfunction kernel;
    cudaError_t found = kernel_for(function, &kernel);
    if (found != cudaSuccess)
        return found;
    return runtime_done(driver.cuLaunchKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                              (unsigned)shared, stream, arguments, NULL));
}

cudaError_t CUDARTAPI cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                                  size_t shared, cudaStream_t stream) {
    CUfunction kernel;
    cudaError_t found = kernel_for(function, &kernel);
    if (found != cudaSuccess)
        return found;
    return runtime_done(driver.cuLaunchCooperativeKernel(kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                                         (unsigned)shared, stream, arguments));
}

cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) {
    CUfunction kernel;
    cudaError_t found = kernel_for(function, &kernel);
    if (found != cudaSuccess)
        return found;
    CUlaunchConfig given = {
        .gridDimX = config->gridDim.x,
        .gridDimY = config->gridDim.y,
        .gridDimZ = config->gridDim.z,
        .blockDimX = config->blockDim.x,
        .blockDimY = config->blockDim.y,
        .blockDimZ = config->blockDim.z,
        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
        .hStream = config->stream,
        .attrs = (CUlaunchAttribute *)config->attrs,
        .numAttrs = config->numAttrs,
    };
    return runtime_done(driver.cuLaunchKernelEx(&given, kernel, arguments, NULL));
}

/* What the compiler writes for kernel<<<grid, block>>>(…): push, then in the stub pop and launch. */
struct call {
    dim3 grid, block;
    size_t shared;
    void *stream;
};

#define MOST_NESTED 16
static _Thread_local struct call pushed[MOST_NESTED];
static _Thread_local unsigned pushed_count;

unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
    if (pushed_count == MOST_NESTED)
        return 1;
    pushed[pushed_count++] = (struct call){grid, block, shared, stream};
    return 0;
}

cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    if (pushed_count == 0)
        return runtime_done((CUresult)cudaErrorMissingConfiguration);
    struct call *call = &pushed[--pushed_count];
    *grid = call->grid, *block = call->block, *shared = call->shared;
    memcpy(stream, &call->stream, sizeof call->stream);
    return cudaSuccess;
}

cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                         cudaStream_t stream);
cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                         cudaStream_t stream) {
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared, stream);
}

/* ---- what is asked about a kernel */

static cudaError_t ask(int *value, CUfunction_attribute attribute, CUfunction kernel) {
    CUdevice device;
    CUresult result = driver.cuCtxGetDevice(&device);
    if (result == CUDA_SUCCESS)
        result = driver.cuKernelGetAttribute(value, attribute, (CUkernel)kernel, device);
    return runtime_done(result);
}

cudaError_t CUDARTAPI cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function) {
    CUfunction kernel;
    int value[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT + 1] = {0};
    cudaError_t found = kernel_for(function, &kernel);
    for (int i = 0; found == cudaSuccess && i <= CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT; i++)
        found = ask(&value[i], (CUfunction_attribute)i, kernel);
    if (found != cudaSuccess)
        return found;
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = value[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    attributes->sharedSizeBytes = (size_t)value[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
    attributes->constSizeBytes = (size_t)value[CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES];
    attributes->localSizeBytes = (size_t)value[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES];
    attributes->numRegs = value[CU_FUNC_ATTRIBUTE_NUM_REGS];
    attributes->ptxVersion = value[CU_FUNC_ATTRIBUTE_PTX_VERSION];
    attributes->binaryVersion = value[CU_FUNC_ATTRIBUTE_BINARY_VERSION];
    attributes->cacheModeCA = value[CU_FUNC_ATTRIBUTE_CACHE_MODE_CA];
    attributes->maxDynamicSharedSizeBytes = value[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
    attributes->preferredShmemCarveout = value[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT];
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value,
                                                      int device) {
    CUfunction known;
    cudaError_t found = kernel_for((const void *)kernel, &known);
    if (found != cudaSuccess)
        return found;
    return runtime_done(
        driver.cuKernelSetAttribute((CUfunction_attribute)attribute, value, (CUkernel)known, device));
}

cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value) {
    int device;
    cudaError_t found = cudaGetDevice(&device);
    return found != cudaSuccess ? found
                                : cudaKernelSetAttributeForDevice((cudaKernel_t)(uintptr_t)function, attribute, value,
                                                                  device);
}

cudaError_t CUDARTAPI cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache config) {
    CUfunction kernel;
    int device;
    cudaError_t found = kernel_for(function, &kernel);
    if (found == cudaSuccess)
        found = cudaGetDevice(&device);
    return found != cudaSuccess
               ? found
               : runtime_done(driver.cuKernelSetCacheConfig((CUkernel)kernel, (CUfunc_cache)config, device));
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                                             int threads, size_t shared,
                                                                             unsigned flags) {
    CUfunction kernel;
    cudaError_t found = kernel_for(function, &kernel);
    if (found != cudaSuccess)
        return found;
    return runtime_done(
        driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared, flags));
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int threads,
                                                                    size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

/* ---- libraries that a program loads by itself */

WITH_CONTEXT(cudaLibraryLoadData,
             (cudaLibrary_t * library, const void *code, enum cudaJitOption *jit, void **jit_values, unsigned jit_count,
              enum cudaLibraryOption *options, void **values, unsigned count),
             cuLibraryLoadData((CUlibrary *)library, code, (CUjit_option *)jit, jit_values, jit_count,
                               (CUlibraryOption *)options, values, count))
WITH_CONTEXT(cudaLibraryLoadFromFile,
             (cudaLibrary_t * library, const char *path, enum cudaJitOption *jit, void **jit_values, unsigned jit_count,
              enum cudaLibraryOption *options, void **values, unsigned count),
             cuLibraryLoadFromFile((CUlibrary *)library, path, (CUjit_option *)jit, jit_values, jit_count,
                                   (CUlibraryOption *)options, values, count))
WITH_CONTEXT(cudaLibraryUnload, (cudaLibrary_t library), cuLibraryUnload((CUlibrary)library))
WITH_CONTEXT(cudaLibraryGetKernel, (cudaKernel_t * kernel, cudaLibrary_t library, const char *name),
             cuLibraryGetKernel((CUkernel *)kernel, (CUlibrary)library, name))
WITH_CONTEXT(cudaLibraryGetKernelCount, (unsigned *count, cudaLibrary_t library),
             cuLibraryGetKernelCount(count, (CUlibrary)library))
WITH_CONTEXT(cudaLibraryGetGlobal, (void **pointer, size_t *bytes, cudaLibrary_t library, const char *name),
             cuLibraryGetGlobal((CUdeviceptr *)pointer, bytes, (CUlibrary)library, name))
WITH_CONTEXT(cudaLibraryGetManaged, (void **pointer, size_t *bytes, cudaLibrary_t library, const char *name),
             cuLibraryGetManaged((CUdeviceptr *)pointer, bytes, (CUlibrary)library, name))
WITH_CONTEXT(cudaLibraryGetUnifiedFunction, (void **pointer, cudaLibrary_t library, const char *name),
             cuLibraryGetUnifiedFunction(pointer, (CUlibrary)library, name))

/* ---- from a host function to what the driver's own calls take */

cudaError_t CUDARTAPI cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol) {
    CUfunction kernel;
    cudaError_t found = kernel_for(symbol, &kernel);
    return found != cudaSuccess ? found : runtime_done(driver.cuKernelGetFunction(function, (CUkernel)kernel));
}

cudaError_t CUDARTAPI cudaGetKernel(cudaKernel_t *kernel, const void *symbol) {
    CUfunction found;
    cudaError_t result = kernel_for(symbol, &found);
    if (result == cudaSuccess)
        *kernel = (cudaKernel_t)found;
    return result;
}
