/* One kernel that takes 2 ms, many times, once 150 ms, and 2 ms again: changing TIMES */
#include "program.h"

static void launch_for(CUfunction kernel, uint64_t milliseconds, int times) {
    uint64_t nanoseconds = milliseconds * 1000000;
    void *parameters[] = {&nanoseconds};
    for (int i = 0; i < times; i++)
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
}

int main(int count, char **words) {
    CUfunction kernel;
    int times = atoi(words[count - 1]);
    use_device(0);
    kernel = kernel_named("step_param");
    launch_for(kernel, 2, times);
    launch_for(kernel, 150, 1);
    launch_for(kernel, 2, times);
    CHECK(cuCtxSynchronize());
    return 0;
}
