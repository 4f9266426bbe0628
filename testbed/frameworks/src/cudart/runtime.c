/* The calling thread: its device, its context, its last error. */
#include "runtime.h"

#include <pthread.h>

#define MOST_DEVICES 64

static _Thread_local int device_of_thread;
static _Thread_local cudaError_t last_error;
static CUcontext primary[MOST_DEVICES];
static pthread_mutex_t primaries = PTHREAD_MUTEX_INITIALIZER;

cudaError_t runtime_done(CUresult result) {
    if (result != CUDA_SUCCESS)
        last_error = (cudaError_t)result;
    return (cudaError_t)result;
}

cudaError_t runtime_load(void) {
    CUresult result = driver_load();
    if (result == CUDA_ERROR_STUB_LIBRARY)
        return runtime_done((CUresult)cudaErrorInsufficientDriver);
    return runtime_done(result);
}

CUresult runtime_primary(int device, CUcontext *context) {
    CUdevice handle;
    if (device < 0 || device >= MOST_DEVICES)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&primaries);
    CUresult result = CUDA_SUCCESS;
    if (!primary[device]) {
        result = driver.cuDeviceGet(&handle, device);
        if (result == CUDA_SUCCESS)
            result = driver.cuDevicePrimaryCtxRetain(&primary[device], handle);
    }
    *context = primary[device];
    pthread_mutex_unlock(&primaries);
    return result;
}

static CUresult make_current(int device) {
    CUcontext context;
    CUresult result = runtime_primary(device, &context);
    return result == CUDA_SUCCESS ? driver.cuCtxSetCurrent(context) : result;
}

cudaError_t runtime_enter(void) {
    CUcontext context = NULL;
    cudaError_t loaded = runtime_load();
    if (loaded != cudaSuccess)
        return loaded;
    CUresult result = driver.cuCtxGetCurrent(&context);
    if (result == CUDA_SUCCESS && !context)
        result = make_current(device_of_thread);
    return runtime_done(result);
}

cudaError_t CUDARTAPI cudaSetDevice(int device) {
    cudaError_t loaded = runtime_load();
    if (loaded != cudaSuccess)
        return loaded;
    CUresult result = make_current(device);
    if (result == CUDA_SUCCESS)
        device_of_thread = device;
    return runtime_done(result);
}

cudaError_t CUDARTAPI cudaGetDevice(int *device) {
    CUcontext context = NULL;
    CUdevice handle;
    cudaError_t loaded = runtime_load();
    if (loaded != cudaSuccess)
        return loaded;
    *device = device_of_thread;
    if (driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context && driver.cuCtxGetDevice(&handle) == CUDA_SUCCESS)
        *device = handle;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceReset(void) {
    CUdevice device;
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess)
        return entered;
    CUresult result = driver.cuCtxGetDevice(&device);
    return runtime_done(result == CUDA_SUCCESS ? driver.cuDevicePrimaryCtxReset(device) : result);
}

cudaError_t CUDARTAPI cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t CUDARTAPI cudaPeekAtLastError(void) {
    return last_error;
}

const char *CUDARTAPI cudaGetErrorName(cudaError_t error) {
    const char *name = NULL;
    if (driver_load() != CUDA_ERROR_STUB_LIBRARY && driver.cuGetErrorName((CUresult)error, &name) == CUDA_SUCCESS && name)
        return name;
    return "unrecognized error code";
}

/* The runtime's own sentence where programs look for it (an out-of-memory handler reads it), else the driver's. */
const char *CUDARTAPI cudaGetErrorString(cudaError_t error) {
    const char *text = NULL;
    if (error == cudaSuccess)
        return "no error";
    if (error == cudaErrorInsufficientDriver)
        return "CUDA driver version is insufficient for CUDA runtime version";
    if (driver_load() != CUDA_ERROR_STUB_LIBRARY && driver.cuGetErrorString((CUresult)error, &text) == CUDA_SUCCESS &&
        text)
        return text;
    return "unrecognized error code";
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *version) {
    *version = 0; /* a machine without a driver is no error here */
    if (driver_load() != CUDA_ERROR_STUB_LIBRARY)
        driver.cuDriverGetVersion(version);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                                       unsigned long long flags,
                                                       enum cudaDriverEntryPointQueryResult *status) {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    cudaError_t loaded = runtime_load();
    if (loaded != cudaSuccess)
        return loaded;
    CUresult result = driver.get_proc_address(symbol, function, (int)version, flags, &found);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    return runtime_done(result);
}
