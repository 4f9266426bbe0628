/* Ends the device's context again and again while it is current, with memory held and work in flight, as cudaDeviceReset
 * does.  resetting reset|release ROUNDS MIB */
#include "program.h"

int main(int count, char **words) {
    CUdeviceptr pointer;
    int is_reset = count > 1 && !strcmp(words[1], "reset"), rounds = atoi(words[2]);
    size_t bytes = (size_t)atol(words[3]) << 20;
    for (int i = 0; i < rounds; i++) {
        use_device(0);
        CHECK(cuMemAlloc_v2(&pointer, bytes));
        for (int j = 0; j < 20; j++)
            CHECK(launch(kernel_named("step_100us"), NULL));
        if (i == rounds - 1)
            CHECK(cuCtxSynchronize());
        CHECK(is_reset ? cuDevicePrimaryCtxReset_v2(0) : cuDevicePrimaryCtxRelease_v2(0));
    }
    printf("ended\n");
    return 0;
}
