/* Launches one kernel into a stream of a green context of the second GPU while a context of the first is current; says
 * "launched", and ends when its input does.  green KERNEL */
#include "program.h"

typedef struct {
    _Alignas(16) char bytes[512]; /* CUdevResource is smaller */
} resource;
CUresult cuDeviceGetDevResource(CUdevice, resource *, int type);
CUresult cuDevResourceGenerateDesc(void **, resource *, unsigned int);
CUresult cuGreenCtxCreate(CUgreenCtx *, void *, CUdevice, unsigned int flags);
CUresult cuGreenCtxStreamCreate(CUstream *, CUgreenCtx, unsigned int flags, int priority);

int main(int count, char **words) {
    resource all;
    void *description;
    CUgreenCtx green;
    CUstream stream;
    EXPECT(count == 2);
    use_device(1);
    CUfunction kernel = kernel_named(words[1]);
    CHECK(cuDeviceGetDevResource(1, &all, 1));
    CHECK(cuDevResourceGenerateDesc(&description, &all, 1));
    CHECK(cuGreenCtxCreate(&green, description, 1, 1));
    CHECK(cuGreenCtxStreamCreate(&stream, green, 1, 0));
    use_device(0);
    CHECK(launch(kernel, stream));
    printf("launched\n");
    fflush(stdout);
    getchar();
    return 0;
}
