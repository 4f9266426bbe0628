/* One thread and two GPUs: a kernel on the first that ends when its partner on the second has begun, COUNT short ones
 * behind it, and only then the partner.  stuck COUNT STREAMS */
#include "program.h"

int main(int count, char **words) {
    CUcontext contexts[2];
    CUfunction kernels[2], small;
    CUstream streams[256];
    int launches = count > 1 ? atoi(words[1]) : 75, kinds = count > 2 ? atoi(words[2]) : 1;
    CHECK(cuInit(0));
    for (int i = 0; i < 2; i++) {
        CHECK(cuDevicePrimaryCtxRetain(&contexts[i], i));
        CHECK(cuCtxSetCurrent(contexts[i]));
        kernels[i] = kernel_named("allreduce_1ms_x2");
    }
    CHECK(cuCtxSetCurrent(contexts[0]));
    small = kernel_named("step_1us");
    for (int i = 0; i < kinds; i++)
        CHECK(cuStreamCreate(&streams[i], 1));
    CHECK(launch(kernels[0], streams[0]));
    for (int i = 0; i < launches; i++)
        CHECK(launch(small, streams[i % kinds]));
    CHECK(cuCtxSetCurrent(contexts[1]));
    CHECK(launch(kernels[1], NULL));
    for (int i = 0; i < 2; i++) {
        CHECK(cuCtxSetCurrent(contexts[i]));
        CHECK(cuCtxSynchronize());
    }
    printf("ended\n");
    return 0;
}
