/* The handle of the stand-in for cuBLAS, and what the generated functions do with it. */
#ifndef STANDIN_CUBLAS_H
#define STANDIN_CUBLAS_H

#include "driver/kernel.h"

struct cublas {
    CUstream stream;
    int math_mode, pointer_mode;
};

int cublasCreate_v2(struct cublas **handle);
int cublasDestroy_v2(struct cublas *handle);
int cublasSetStream_v2(struct cublas *handle, CUstream stream);
int cublasGetStream_v2(struct cublas *handle, CUstream *stream);
int cublasSetWorkspace_v2(struct cublas *handle, void *workspace, size_t bytes);
int cublasSetMathMode(struct cublas *handle, int mode);
int cublasGetMathMode(struct cublas *handle, int *mode);
int cublasSetPointerMode_v2(struct cublas *handle, int mode);
int cublasGetPointerMode_v2(struct cublas *handle, int *mode);
int cublasSetAtomicsMode(struct cublas *handle, int mode);
int cublasSetSmCountTarget(struct cublas *handle, int count);
int cublasGetVersion_v2(struct cublas *handle, int *version);
const char *cublasGetStatusString(int status);
int cublasGetProperty(int which, int *value);

/* Any function that works on the device: a short kernel. */
int standin_cublas(struct cublas *handle, struct kernel *kernel);

/* Any product: its first arguments are handle, transa, transb, m, n, k. */
int standin_product(struct cublas *handle, struct kernel *kernel, int m, int n, int k);

#endif
