/* Waits, then launches one kernel every so many milliseconds and waits for its end; prints how long each launch call took, in
 * milliseconds.  visitor WAIT_SECONDS PAUSE_MS TIMES KERNEL */
#include <unistd.h>

#include "program.h"

int main(int count, char **words) {
    EXPECT(count == 5);
    use_device(0);
    CUfunction kernel = kernel_named(words[4]);
    usleep((useconds_t)(atof(words[1]) * 1e6));
    for (int i = 0, times = atoi(words[3]); i < times; i++) {
        double began = seconds();
        CHECK(launch(kernel, NULL));
        printf("%.3f\n", (seconds() - began) * 1e3);
        CHECK(cuCtxSynchronize());
        usleep((useconds_t)(atof(words[2]) * 1e3));
    }
    return 0;
}
