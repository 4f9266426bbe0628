/* Launches one kernel on two GPUs by one call, says "launched", and ends when its input does.  multi_device KERNEL */
#include "program.h"

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags);

int main(int count, char **words) {
    CUDA_LAUNCH_PARAMS list[2] = {{0}};
    EXPECT(count == 2);
    for (int i = 0; i < 2; i++) {
        use_device(i);
        list[i] = (CUDA_LAUNCH_PARAMS){.function = kernel_named(words[1]), .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1,
                                       .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
        CHECK(cuStreamCreate(&list[i].hStream, 1));
    }
    CHECK(cuLaunchCooperativeKernelMultiDevice(list, 2, 0));
    printf("launched\n");
    fflush(stdout);
    getchar();
    return 0;
}
