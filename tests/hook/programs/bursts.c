/* One kernel every so many milliseconds, so many times, and never waits for its end but for the last.
 * bursts KERNEL PAUSE_MS TIMES */
#include <unistd.h>

#include "program.h"

int main(int count, char **words) {
    EXPECT(count == 4);
    use_device(0);
    CUfunction kernel = kernel_named(words[1]);
    for (int i = 0, times = atoi(words[3]); i < times; i++) {
        CHECK(launch(kernel, NULL));
        usleep((useconds_t)(atof(words[2]) * 1e3));
    }
    CHECK(cuCtxSynchronize());
    return 0;
}
