/* cuSOLVER: its version, and the handle that frameworks make before they need it; solvers refuse. */
#include <stdlib.h>

#include "math/version.h"

VERSION_FUNCTIONS(cusolver, 12, 2, 0, 12200)

int cusolverDnCreate(void **handle);
int cusolverDnDestroy(void *handle);
int cusolverDnSetStream(void *handle, void *stream);

int cusolverDnCreate(void **handle) {
    *handle = calloc(1, 16);
    return *handle ? 0 : 2; /* CUSOLVER_STATUS_ALLOC_FAILED */
}

int cusolverDnDestroy(void *handle) {
    free(handle);
    return 0;
}

int cusolverDnSetStream(void *handle, void *stream) {
    (void)handle, (void)stream;
    return 0;
}
