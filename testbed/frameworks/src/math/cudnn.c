/* cuDNN: the handle, and the graph API that convolutions go through.  A descriptor keeps nothing: whatever is asked for
 * has one answer, and an executed plan is one kernel.  All other functions refuse. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "driver/kernel.h"

enum { SUCCESS = 0, NOT_INITIALIZED = 1001, BAD_PARAM = 2000, ALLOC_FAILED = 4002, EXECUTION_FAILED = 5000 };
enum type { TYPE_INT64 = 3, TYPE_DESCRIPTOR = 15 }; /* of cudnnBackendAttributeType_t */

struct cudnn {
    CUstream stream;
};

struct descriptor {
    int kind;
};

size_t cudnnGetVersion(void);
size_t cudnnGetCudartVersion(void);
int cudnnGetProperty(int which, int *value);
const char *cudnnGetErrorString(int status);
void cudnnGetLastErrorString(char *text, size_t bytes);
int cudnnCreate(struct cudnn **handle);
int cudnnDestroy(struct cudnn *handle);
int cudnnSetStream(struct cudnn *handle, CUstream stream);
int cudnnGetStream(struct cudnn *handle, CUstream *stream);
int cudnnBackendCreateDescriptor(int kind, struct descriptor **made);
int cudnnBackendDestroyDescriptor(struct descriptor *descriptor);
int cudnnBackendInitialize(struct descriptor *descriptor);
int cudnnBackendFinalize(struct descriptor *descriptor);
int cudnnBackendSetAttribute(struct descriptor *descriptor, int name, int type, int64_t count, const void *values);
int cudnnBackendGetAttribute(const struct descriptor *descriptor, int name, int type, int64_t asked, int64_t *count,
                             void *values);
int cudnnBackendExecute(struct cudnn *handle, struct descriptor *plan, struct descriptor *pointers);

size_t cudnnGetVersion(void) {
    return 92600; /* 9.26.0 */
}

size_t cudnnGetCudartVersion(void) {
    return 13020;
}

int cudnnGetProperty(int which, int *value) {
    static const int VERSION[] = {9, 26, 0};
    if (which < 0 || which > 2)
        return BAD_PARAM;
    *value = VERSION[which];
    return SUCCESS;
}

const char *cudnnGetErrorString(int status) {
    return status == SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_NOT_SUPPORTED";
}

void cudnnGetLastErrorString(char *text, size_t bytes) {
    if (bytes)
        text[0] = '\0';
}

int cudnnCreate(struct cudnn **handle) {
    if (driver_load() != CUDA_SUCCESS)
        return NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    return *handle ? SUCCESS : ALLOC_FAILED;
}

int cudnnDestroy(struct cudnn *handle) {
    free(handle);
    return SUCCESS;
}

int cudnnSetStream(struct cudnn *handle, CUstream stream) {
    handle->stream = stream;
    return SUCCESS;
}

int cudnnGetStream(struct cudnn *handle, CUstream *stream) {
    *stream = handle->stream;
    return SUCCESS;
}

int cudnnBackendCreateDescriptor(int kind, struct descriptor **made) {
    *made = calloc(1, sizeof **made);
    if (!*made)
        return ALLOC_FAILED;
    (*made)->kind = kind;
    return SUCCESS;
}

int cudnnBackendDestroyDescriptor(struct descriptor *descriptor) {
    free(descriptor);
    return SUCCESS;
}

int cudnnBackendInitialize(struct descriptor *descriptor) {
    return descriptor ? SUCCESS : BAD_PARAM;
}

int cudnnBackendFinalize(struct descriptor *descriptor) {
    return descriptor ? SUCCESS : BAD_PARAM;
}

int cudnnBackendSetAttribute(struct descriptor *descriptor, int name, int type, int64_t count, const void *values) {
    (void)name, (void)type, (void)count, (void)values;
    return descriptor ? SUCCESS : BAD_PARAM;
}

/* A heuristic has one engine; a size or a count is 0; notes and knobs are none. */
int cudnnBackendGetAttribute(const struct descriptor *descriptor, int name, int type, int64_t asked, int64_t *count,
                             void *values) {
    (void)name;
    if (!descriptor)
        return BAD_PARAM;
    int64_t have = type == TYPE_INT64 || type == TYPE_DESCRIPTOR;
    if (count)
        *count = have;
    if (type == TYPE_INT64 && asked > 0 && values)
        memset(values, 0, sizeof(int64_t));
    return SUCCESS;
}

int cudnnBackendExecute(struct cudnn *handle, struct descriptor *plan, struct descriptor *pointers) {
    static struct kernel kernel = {.name = "cudnn_execute_param"};
    if (!handle || !plan || !pointers)
        return BAD_PARAM;
    return kernel_launch(&kernel, handle->stream, 50000, 64, 1) == CUDA_SUCCESS ? SUCCESS : EXECUTION_FAILED;
}
