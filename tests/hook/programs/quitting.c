/* Launches into more streams than a thread is remembered for, so that it often holds our locks, until a signal's handler
 * calls exit.  quitting MILLISECONDS */
#include <signal.h>
#include <sys/time.h>

#include "program.h"

#define STREAMS 12

static void quit(int number) {
    (void)number;
    exit(0);
}

int main(int count, char **words) {
    CUstream streams[STREAMS];
    long after = count > 1 ? atol(words[1]) : 100;
    struct itimerval once = {{0, 0}, {after / 1000, after % 1000 * 1000}};
    use_device(0);
    CUfunction kernel = kernel_named("step_1us");
    for (int i = 0; i < STREAMS; i++)
        CHECK(cuStreamCreate(&streams[i], 1));
    CHECK(launch(kernel, streams[0]));
    signal(SIGALRM, quit);
    setitimer(ITIMER_REAL, &once, NULL);
    for (int i = 0;; i++)
        CHECK(launch(kernel, streams[i % STREAMS]));
}
