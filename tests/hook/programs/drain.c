/* Launches kernels of the given names in turn, as fast as it may, for so many seconds; prints launches a second.
 * drain SECONDS NAME [NAME …] */
#include "program.h"

int main(int count, char **words) {
    CUfunction kernels[8];
    CUstream stream;
    long launched = 0;
    use_device(0);
    CHECK(cuStreamCreate(&stream, 1));
    for (int i = 2; i < count && i < 10; i++)
        kernels[i - 2] = kernel_named(words[i]);
    for (int i = 2; i < count; i++)
        CHECK(launch(kernels[i - 2], stream));
    CHECK(cuStreamSynchronize(stream));
    for (double end = seconds() + atof(words[1]); seconds() < end; launched++)
        CHECK(launch(kernels[launched % (count - 2)], stream));
    CHECK(cuStreamSynchronize(stream));
    printf("%ld\n", launched);
    return 0;
}
