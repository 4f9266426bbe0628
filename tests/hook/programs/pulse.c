/* One launch every so many milliseconds, so many times; prints how long each call took, in milliseconds.
 * pulse PAUSE_MS TIMES KERNEL */
#include <unistd.h>

#include "program.h"

int main(int count, char **words) {
    CUfunction kernel;
    (void)count;
    use_device(0);
    kernel = kernel_named(words[3]);
    for (int i = 0, times = atoi(words[2]); i < times; i++) {
        double began = seconds();
        CHECK(launch(kernel, NULL));
        printf("%.3f\n", (seconds() - began) * 1e3);
        fflush(stdout);
        usleep((useconds_t)(atof(words[1]) * 1e3));
    }
    CHECK(cuCtxSynchronize());
    return 0;
}
