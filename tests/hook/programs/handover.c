/* Launches empty kernels as fast as it may until its input ends; prints when each burst began and ended, in seconds of the
 * monotonic clock. A burst ends where a call took longer than a call takes. */
#include <fcntl.h>
#include <unistd.h>

#include "program.h"

#define MOST 200000
static double starts[MOST], ends[MOST];

int main(void) {
    int bursts = 0;
    char byte;
    use_device(0);
    CUfunction kernel = kernel_named("empty_0ns");
    fcntl(0, F_SETFL, O_NONBLOCK);
    for (double before = seconds(); bursts < MOST - 1 && read(0, &byte, 1) != 0;)
        for (int i = 0; i < 2000; i++) {
            CHECK(launch(kernel, NULL));
            double after = seconds();
            if (after - before > 40e-6) {
                ends[bursts++] = before;
                starts[bursts] = after;
            }
            before = after;
        }
    for (int i = 1; i < bursts; i++)
        printf("%.7f %.7f\n", starts[i], ends[i]);
    return 0;
}
