/* cuBLASLt: descriptors are small heap objects, there is one algorithm, and a product takes the time of its size. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver/kernel.h"

enum { SUCCESS = 0, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };
enum layout_attribute { TYPE = 0, ORDER = 1, ROWS = 2, COLUMNS = 3, LEADING = 4, BATCH = 5 };
enum product_attribute { COMPUTE = 0, SCALE = 1 };

#define ATTRIBUTES 64

/* Every descriptor keeps what was set, and says it again: 8 bytes an attribute. */
struct descriptor {
    uint64_t attribute[ATTRIBUTES];
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

static int make(struct descriptor **made) {
    *made = calloc(1, sizeof **made);
    return *made ? SUCCESS : ALLOC_FAILED;
}

static int set(struct descriptor *descriptor, int attribute, const void *value, size_t bytes) {
    if (!descriptor || !value || attribute < 0)
        return INVALID_VALUE;
    if (attribute < ATTRIBUTES && bytes <= sizeof(uint64_t)) {
        descriptor->attribute[attribute] = 0;
        memcpy(&descriptor->attribute[attribute], value, bytes);
    }
    return SUCCESS;
}

static int get(const struct descriptor *descriptor, int attribute, void *value, size_t bytes, size_t *written) {
    if (!descriptor || attribute < 0)
        return INVALID_VALUE;
    if (written)
        *written = bytes;
    if (value && bytes)
        memset(value, 0, bytes);
    if (value && attribute < ATTRIBUTES)
        memcpy(value, &descriptor->attribute[attribute], bytes < sizeof(uint64_t) ? bytes : sizeof(uint64_t));
    return SUCCESS;
}

#define DESCRIPTOR(name)                                                                                               \
    int cublasLt##name##Destroy(struct descriptor *descriptor);                                                        \
    int cublasLt##name##SetAttribute(struct descriptor *descriptor, int attribute, const void *value, size_t bytes);   \
    int cublasLt##name##GetAttribute(const struct descriptor *descriptor, int attribute, void *value, size_t bytes,    \
                                     size_t *written);                                                                 \
    int cublasLt##name##Destroy(struct descriptor *descriptor) {                                                       \
        free(descriptor);                                                                                              \
        return SUCCESS;                                                                                                \
    }                                                                                                                  \
    int cublasLt##name##SetAttribute(struct descriptor *descriptor, int attribute, const void *value, size_t bytes) {  \
        return set(descriptor, attribute, value, bytes);                                                               \
    }                                                                                                                  \
    int cublasLt##name##GetAttribute(const struct descriptor *descriptor, int attribute, void *value, size_t bytes,    \
                                     size_t *written) {                                                                \
        return get(descriptor, attribute, value, bytes, written);                                                      \
    }

DESCRIPTOR(MatmulDesc)
DESCRIPTOR(MatmulPreference)
DESCRIPTOR(MatrixTransformDesc)
DESCRIPTOR(MatrixLayout)

int cublasLtMatmulDescCreate(struct descriptor **made, int compute, int scale);
int cublasLtMatmulPreferenceCreate(struct descriptor **made);
int cublasLtMatrixTransformDescCreate(struct descriptor **made, int scale);
int cublasLtMatrixLayoutCreate(struct descriptor **made, int type, uint64_t rows, uint64_t columns, int64_t leading);
int cublasLtCreate(void **handle);
int cublasLtDestroy(void *handle);
size_t cublasLtGetVersion(void);
const char *cublasLtGetStatusString(int status);
int cublasLtMatmulAlgoInit(void *handle, int compute, int scale, int a, int b, int c, int d, int id, void *algorithm);
int cublasLtMatmulAlgoConfigSetAttribute(void *algorithm, int attribute, const void *value, size_t bytes);
int cublasLtMatmulAlgoConfigGetAttribute(const void *algorithm, int attribute, void *value, size_t bytes,
                                         size_t *written);
int cublasLtMatmulAlgoCheck(void *handle, void *description, void *a, void *b, void *c, void *d, const void *algorithm,
                            struct heuristic *result);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b, void *c, void *d,
                                   void *preference, int asked, struct heuristic *results, int *returned);
int cublasLtMatmul(void *handle, void *description, const void *alpha, const void *a, const struct descriptor *a_layout,
                   const void *b, const struct descriptor *b_layout, const void *beta, const void *c, const struct descriptor *c_layout,
                   void *d, const struct descriptor *d_layout, const void *algorithm, void *workspace, size_t bytes,
                   CUstream stream);
int cublasLtMatrixTransform(void *handle, void *description, const void *alpha, const void *a, void *a_layout,
                            const void *beta, const void *b, void *b_layout, void *c, void *c_layout, CUstream stream);

int cublasLtMatmulDescCreate(struct descriptor **made, int compute, int scale) {
    int result = make(made);
    if (result == SUCCESS) {
        (*made)->attribute[COMPUTE] = (uint64_t)compute;
        (*made)->attribute[SCALE] = (uint64_t)scale;
    }
    return result;
}

int cublasLtMatmulPreferenceCreate(struct descriptor **made) {
    return make(made);
}

int cublasLtMatrixTransformDescCreate(struct descriptor **made, int scale) {
    (void)scale;
    return make(made);
}

int cublasLtMatrixLayoutCreate(struct descriptor **made, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    int result = make(made);
    if (result == SUCCESS) {
        uint64_t *attribute = (*made)->attribute;
        attribute[TYPE] = (uint64_t)type;
        attribute[ROWS] = rows;
        attribute[COLUMNS] = columns;
        attribute[LEADING] = (uint64_t)leading;
        attribute[BATCH] = 1;
    }
    return result;
}

int cublasLtCreate(void **handle) {
    *handle = calloc(1, 64);
    return *handle ? SUCCESS : ALLOC_FAILED;
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

int cublasLtMatmul(void *handle, void *description, const void *alpha, const void *a, const struct descriptor *a_layout,
                   const void *b, const struct descriptor *b_layout, const void *beta, const void *c, const struct descriptor *c_layout,
                   void *d, const struct descriptor *d_layout, const void *algorithm, void *workspace, size_t bytes,
                   CUstream stream) {
    static struct kernel kernel = {.name = "cublasLtMatmul_param"};
    (void)handle, (void)description, (void)alpha, (void)a, (void)b, (void)b_layout, (void)beta, (void)c;
    (void)c_layout, (void)d, (void)algorithm, (void)workspace, (void)bytes;
    const uint64_t *left = a_layout->attribute, *result = d_layout->attribute;
    uint64_t m = result[ROWS], n = result[COLUMNS], batch = result[BATCH] ? result[BATCH] : 1;
    uint64_t k = m ? left[ROWS] * left[COLUMNS] / m : 0; /* A is m by k, or k by m */
    return kernel_product(&kernel, stream, m, n, k, batch) == CUDA_SUCCESS ? SUCCESS : EXECUTION_FAILED;
}

int cublasLtMatrixTransform(void *handle, void *description, const void *alpha, const void *a, void *a_layout,
                            const void *beta, const void *b, void *b_layout, void *c, void *c_layout, CUstream stream) {
    static struct kernel kernel = {.name = "cublasLtMatrixTransform_param"};
    (void)handle, (void)description, (void)alpha, (void)a, (void)a_layout, (void)beta, (void)b, (void)b_layout;
    (void)c, (void)c_layout;
    return kernel_launch(&kernel, stream, 20000, 16, 16) == CUDA_SUCCESS ? SUCCESS : EXECUTION_FAILED;
}

const char *cublasLtGetStatusString(int status) {
    return status == SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "a stand-in's error";
}
