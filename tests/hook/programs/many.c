/* Ends the context of one device of two while each holds so many allocations; prints how many seconds it took. */
#include "program.h"

int main(int count, char **words) {
    CUdeviceptr pointer;
    EXPECT(count == 2);
    for (int device = 1; device >= 0; device--) {
        use_device(device);
        for (int i = 0; i < atoi(words[1]); i++)
            CHECK(cuMemAlloc_v2(&pointer, 4096));
    }
    double began = seconds();
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    printf("%.3f\n", seconds() - began);
    return 0;
}
