/* meeting DEVICE copy|wait: each line of its input is half of a collective, whose result is then copied to the host, which
 * waits for it within the driver, or waited for. */
#include "program.h"

CUresult cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);

int main(int count, char **words) {
    char line[64];
    CUdeviceptr pointer;
    CUstream stream;
    int result;
    EXPECT(count == 3);
    use_device(atoi(words[1]));
    CUfunction meet = kernel_named("allreduce_500us_x2"), small = kernel_named("step_10us");
    CHECK(cuStreamCreate(&stream, 0));
    CHECK(cuMemAlloc_v2(&pointer, 4096));
    CHECK(launch(small, stream));
    CHECK(cuStreamSynchronize(stream));
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        CHECK(launch(meet, stream));
        CHECK(words[2][0] == 'c' ? cuMemcpyDtoH_v2(&result, pointer, sizeof result) : cuStreamSynchronize(stream));
        printf("ran\n");
        fflush(stdout);
    }
    return 0;
}
