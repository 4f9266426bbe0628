/* Says that it is ready, waits for a line, launches so many kernels and prints how many seconds they took.
 * equal KERNEL TIMES */
#include "program.h"

int main(int count, char **words) {
    CUstream stream;
    char line[16];
    EXPECT(count == 3);
    use_device(0);
    CHECK(cuStreamCreate(&stream, 1));
    CUfunction kernel = kernel_named(words[1]);
    CHECK(launch(kernel, stream));
    CHECK(cuStreamSynchronize(stream));
    printf("ready\n");
    fflush(stdout);
    EXPECT(fgets(line, sizeof line, stdin));
    double began = seconds();
    for (int i = 0, times = atoi(words[2]); i < times; i++)
        CHECK(launch(kernel, stream));
    CHECK(cuStreamSynchronize(stream));
    printf("%.4f\n", seconds() - began);
    return 0;
}
