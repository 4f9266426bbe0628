/* cuBLAS: the handle, and products that take the time of their size.  All other functions are generated: they launch a
 * short kernel in the handle's stream. */
#include "cublas.h"

#include <stdlib.h>

#include "driver/kernel.h"

enum { SUCCESS = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };

int cublasCreate_v2(struct cublas **handle) {
    CUcontext context = NULL;
    if (driver_load() != CUDA_SUCCESS || driver.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    return *handle ? SUCCESS : ALLOC_FAILED;
}

int cublasDestroy_v2(struct cublas *handle) {
    free(handle);
    return SUCCESS;
}

int cublasSetStream_v2(struct cublas *handle, CUstream stream) {
    handle->stream = stream;
    return SUCCESS;
}

int cublasGetStream_v2(struct cublas *handle, CUstream *stream) {
    *stream = handle->stream;
    return SUCCESS;
}

int cublasSetWorkspace_v2(struct cublas *handle, void *workspace, size_t bytes) {
    (void)handle, (void)workspace, (void)bytes;
    return SUCCESS;
}

int cublasSetMathMode(struct cublas *handle, int mode) {
    handle->math_mode = mode;
    return SUCCESS;
}

int cublasGetMathMode(struct cublas *handle, int *mode) {
    *mode = handle->math_mode;
    return SUCCESS;
}

int cublasSetPointerMode_v2(struct cublas *handle, int mode) {
    handle->pointer_mode = mode;
    return SUCCESS;
}

int cublasGetPointerMode_v2(struct cublas *handle, int *mode) {
    *mode = handle->pointer_mode;
    return SUCCESS;
}

int cublasSetAtomicsMode(struct cublas *handle, int mode) {
    (void)handle, (void)mode;
    return SUCCESS;
}

int cublasSetSmCountTarget(struct cublas *handle, int count) {
    (void)handle, (void)count;
    return SUCCESS;
}

int cublasGetVersion_v2(struct cublas *handle, int *version) {
    (void)handle;
    *version = 130400;
    return SUCCESS;
}

int cublasGetProperty(int which, int *value) {
    static const int VERSION[] = {13, 4, 0};
    if (which < 0 || which > 2)
        return INVALID_VALUE;
    *value = VERSION[which];
    return SUCCESS;
}

int standin_cublas(struct cublas *handle, struct kernel *kernel) {
    if (!handle)
        return NOT_INITIALIZED;
    return kernel_launch(kernel, handle->stream, 5000, 1, 1) == CUDA_SUCCESS ? SUCCESS : EXECUTION_FAILED;
}

int standin_product(struct cublas *handle, struct kernel *kernel, int m, int n, int k) {
    if (!handle)
        return NOT_INITIALIZED;
    if (m < 0 || n < 0 || k < 0)
        return INVALID_VALUE;
    CUresult result = kernel_product(kernel, handle->stream, (uint64_t)m, (uint64_t)n, (uint64_t)k, 1);
    return result == CUDA_SUCCESS ? SUCCESS : EXECUTION_FAILED;
}

const char *cublasGetStatusString(int status) {
    return status == SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "a stand-in's error";
}
