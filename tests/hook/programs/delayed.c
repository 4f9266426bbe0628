/* A thread that waits for its turn and cannot go on when it has it, as on a busy machine: a signal's handler keeps it.
 * delayed MILLISECONDS */
#include <signal.h>
#include <unistd.h>

#include "program.h"

static useconds_t delay_us;

static void keep(int number) {
    (void)number;
    (void)!write(STDOUT_FILENO, "kept\n", 5);
    usleep(delay_us);
}

int main(int count, char **words) {
    CUfunction kernel;
    delay_us = (useconds_t)atoi(words[count - 1]) * 1000;
    use_device(0);
    kernel = kernel_named("step_1ms");
    signal(SIGUSR1, keep);
    CHECK(launch(kernel, NULL));
    CHECK(cuCtxSynchronize());
    (void)!write(STDOUT_FILENO, "ended\n", 6);
    return 0;
}
