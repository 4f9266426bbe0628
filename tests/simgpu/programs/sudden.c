/* Ends itself by exit() in a signal handler, so many microseconds after it began to ask: most often within a transaction.
 * sudden MICROSECONDS */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

#include "../../../simgpu/src/driver/abi/api.h"

static void leave(int number) {
    (void)number;
    exit(7);
}

int main(int count, char **words) {
    CUcontext context;
    size_t free_bytes, total;
    struct itimerval soon = {.it_value = {.tv_usec = count > 1 ? atol(words[1]) : 1000}};
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return 1;
    signal(SIGALRM, leave);
    setitimer(ITIMER_REAL, &soon, NULL);
    while (!cuMemGetInfo_v2(&free_bytes, &total))
        ;
    return 2;
}
