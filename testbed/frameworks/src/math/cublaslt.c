/* cuBLASLt: descriptors are small heap objects, there is one algorithm, and a product takes the time of its size. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver/kernel.h"

enum { SUCCESS = 0, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };
enum layout_attribute { ROWS = 2, COLUMNS = 3, BATCH = 5 };

struct layout {
    uint64_t rows, columns;
    int32_t batch;
};

/* cublasLtMatmulHeuristicResult_t of cublasLt.h */
struct algorithm {
    uint64_t data[8];
};

struct heuristic {
    struct algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

static int make(void **object, size_t bytes) {
    *object = calloc(1, bytes);
    return *object ? SUCCESS : ALLOC_FAILED;
}

#define DESCRIPTOR(name)                                                                                               \
    int cublasLt##name##Destroy(void *object);                                                                         \
    int cublasLt##name##SetAttribute(void *object, int attribute, const void *value, size_t bytes);                    \
    int cublasLt##name##Destroy(void *object) {                                                                        \
        free(object);                                                                                                  \
        return SUCCESS;                                                                                                \
    }                                                                                                                  \
    int cublasLt##name##SetAttribute(void *object, int attribute, const void *value, size_t bytes) {                   \
        (void)object, (void)attribute, (void)value, (void)bytes;                                                       \
        return SUCCESS;                                                                                                \
    }

DESCRIPTOR(MatmulDesc)
DESCRIPTOR(MatmulPreference)
DESCRIPTOR(MatrixTransformDesc)

int cublasLtMatmulDescCreate(void **object, int compute, int scale);
int cublasLtMatmulPreferenceCreate(void **object);
int cublasLtMatrixTransformDescCreate(void **object, int scale);
int cublasLtMatrixLayoutCreate(struct layout **layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
int cublasLtMatrixLayoutDestroy(struct layout *layout);
int cublasLtMatrixLayoutSetAttribute(struct layout *layout, int attribute, const void *value, size_t bytes);
int cublasLtCreate(void **handle);
int cublasLtDestroy(void *handle);
size_t cublasLtGetVersion(void);
int cublasLtMatmulAlgoInit(void *handle, int compute, int scale, int a, int b, int c, int d, int id, void *algorithm);
int cublasLtMatmulAlgoConfigSetAttribute(void *algorithm, int attribute, const void *value, size_t bytes);
int cublasLtMatmulAlgoConfigGetAttribute(const void *algorithm, int attribute, void *value, size_t bytes,
                                         size_t *written);
int cublasLtMatmulAlgoCheck(void *handle, void *description, void *a, void *b, void *c, void *d, const void *algorithm,
                            struct heuristic *result);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b, void *c, void *d,
                                   void *preference, int asked, struct heuristic *results, int *returned);
int cublasLtMatmul(void *handle, void *description, const void *alpha, const void *a, struct layout *a_layout,
                   const void *b, struct layout *b_layout, const void *beta, const void *c, struct layout *c_layout,
                   void *d, struct layout *d_layout, const void *algorithm, void *workspace, size_t bytes,
                   CUstream stream);
int cublasLtMatrixTransform(void *handle, void *description, const void *alpha, const void *a, void *a_layout,
                            const void *beta, const void *b, void *b_layout, void *c, void *c_layout, CUstream stream);

int cublasLtMatmulDescCreate(void **object, int compute, int scale) {
    (void)compute, (void)scale;
    return make(object, 64);
}

int cublasLtMatmulPreferenceCreate(void **object) {
    return make(object, 64);
}

int cublasLtMatrixTransformDescCreate(void **object, int scale) {
    (void)scale;
    return make(object, 64);
}

int cublasLtMatrixLayoutCreate(struct layout **layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    (void)type, (void)leading;
    if (make((void **)layout, sizeof **layout) != SUCCESS)
        return ALLOC_FAILED;
    **layout = (struct layout){rows, columns, 1};
    return SUCCESS;
}

int cublasLtMatrixLayoutDestroy(struct layout *layout) {
    free(layout);
    return SUCCESS;
}

int cublasLtMatrixLayoutSetAttribute(struct layout *layout, int attribute, const void *value, size_t bytes) {
    if (attribute == ROWS && bytes == sizeof layout->rows)
        memcpy(&layout->rows, value, bytes);
    if (attribute == COLUMNS && bytes == sizeof layout->columns)
        memcpy(&layout->columns, value, bytes);
    if (attribute == BATCH && bytes == sizeof layout->batch)
        memcpy(&layout->batch, value, bytes);
    return SUCCESS;
}

int cublasLtCreate(void **handle) {
    return make(handle, 64);
}

int cublasLtDestroy(void *handle) {
    free(handle);
    return SUCCESS;
}

size_t cublasLtGetVersion(void) {
    return 130400;
}

int cublasLtMatmulAlgoInit(void *handle, int compute, int scale, int a, int b, int c, int d, int id, void *algorithm) {
    (void)handle, (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)d, (void)id;
    memset(algorithm, 0, sizeof(struct algorithm));
    return SUCCESS;
}

int cublasLtMatmulAlgoConfigSetAttribute(void *algorithm, int attribute, const void *value, size_t bytes) {
    (void)algorithm, (void)attribute, (void)value, (void)bytes;
    return SUCCESS;
}

int cublasLtMatmulAlgoConfigGetAttribute(const void *algorithm, int attribute, void *value, size_t bytes,
                                         size_t *written) {
    (void)algorithm, (void)attribute;
    memset(value, 0, bytes);
    if (written)
        *written = bytes;
    return SUCCESS;
}

int cublasLtMatmulAlgoCheck(void *handle, void *description, void *a, void *b, void *c, void *d, const void *algorithm,
                            struct heuristic *result) {
    (void)handle, (void)description, (void)a, (void)b, (void)c, (void)d, (void)algorithm;
    memset(result, 0, sizeof *result);
    result->waves = 1;
    return SUCCESS;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b, void *c, void *d,
                                   void *preference, int asked, struct heuristic *results, int *returned) {
    (void)preference;
    if (asked < 1)
        return INVALID_VALUE;
    *returned = 1;
    return cublasLtMatmulAlgoCheck(handle, description, a, b, c, d, NULL, results);
}

int cublasLtMatmul(void *handle, void *description, const void *alpha, const void *a, struct layout *a_layout,
                   const void *b, struct layout *b_layout, const void *beta, const void *c, struct layout *c_layout,
                   void *d, struct layout *d_layout, const void *algorithm, void *workspace, size_t bytes,
                   CUstream stream) {
    static struct kernel kernel = {.name = "cublasLtMatmul_param"};
    (void)handle, (void)description, (void)alpha, (void)a, (void)b, (void)b_layout, (void)beta, (void)c;
    (void)c_layout, (void)d, (void)algorithm, (void)workspace, (void)bytes;
    /* A is m by k or k by m: its area over m is k either way */
    uint64_t m = d_layout->rows, n = d_layout->columns, k = m ? a_layout->rows * a_layout->columns / m : 0;
    uint64_t batch = d_layout->batch > 0 ? (uint64_t)d_layout->batch : 1;
    return kernel_product(&kernel, stream, m, n, k, batch) == CUDA_SUCCESS ? SUCCESS : EXECUTION_FAILED;
}

int cublasLtMatrixTransform(void *handle, void *description, const void *alpha, const void *a, void *a_layout,
                            const void *beta, const void *b, void *b_layout, void *c, void *c_layout, CUstream stream) {
    static struct kernel kernel = {.name = "cublasLtMatrixTransform_param"};
    (void)handle, (void)description, (void)alpha, (void)a, (void)a_layout, (void)beta, (void)b, (void)b_layout;
    (void)c, (void)c_layout;
    return kernel_launch(&kernel, stream, 20000, 16, 16) == CUDA_SUCCESS ? SUCCESS : EXECUTION_FAILED;
}
