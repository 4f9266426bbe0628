/* cuSPARSE: its version, and the handle that frameworks make before they need it; everything else refuses. */
#include <stdlib.h>

int cusparseGetProperty(int which, int *value);
int cusparseGetVersion(void *handle, int *version);
int cusparseCreate(void **handle);
int cusparseDestroy(void *handle);
int cusparseSetStream(void *handle, void *stream);

int cusparseGetProperty(int which, int *value) {
    static const int PARTS[] = {12, 7, 10};
    if (which < 0 || which > 2)
        return 3; /* CUSPARSE_STATUS_INVALID_VALUE */
    *value = PARTS[which];
    return 0;
}

int cusparseGetVersion(void *handle, int *version) {
    (void)handle;
    *version = 12710;
    return 0;
}

int cusparseCreate(void **handle) {
    *handle = calloc(1, 16);
    return *handle ? 0 : 2; /* CUSPARSE_STATUS_ALLOC_FAILED */
}

int cusparseDestroy(void *handle) {
    free(handle);
    return 0;
}

int cusparseSetStream(void *handle, void *stream) {
    (void)handle, (void)stream;
    return 0;
}
