/* Does what it is told, line by line: `hello 0` asks something that only the daemon knows; `launch D` starts a launch on
 * device D in a thread of its own and says `ran D` when the call has returned.  Its kernel ends when two of it have begun:
 * unhooked, a second one of this program is the partner that ends it. */
#include <pthread.h>

#include "program.h"

static CUcontext contexts[8];
static CUfunction kernel;
static CUstream streams[8];

static void *launch_on(void *device) {
    intptr_t ordinal = (intptr_t)device;
    CHECK(cuCtxSetCurrent(contexts[ordinal]));
    CHECK(launch(kernel, streams[ordinal]));
    printf("ran %d\n", (int)ordinal);
    fflush(stdout);
    return NULL;
}

int main(int count, char **words) {
    int devices, device, ordinal;
    char word[32];
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&devices));
    for (ordinal = 0; ordinal < devices && ordinal < 8; ordinal++) {
        CHECK(cuDeviceGet(&device, ordinal));
        CHECK(cuDevicePrimaryCtxRetain(&contexts[ordinal], device));
        CHECK(cuCtxSetCurrent(contexts[ordinal]));
        CHECK(cuStreamCreate(&streams[ordinal], 1));
        kernel = kernel_named(count > 1 ? words[1] : "wait_1us_x2");
    }
    printf("ready\n");
    fflush(stdout);
    while (scanf("%31s %d", word, &ordinal) == 2) {
        pthread_t thread;
        size_t free, total;
        if (!strcmp(word, "hello")) {
            CHECK(cuMemGetInfo_v2(&free, &total));
            continue;
        }
        pthread_create(&thread, NULL, launch_on, (void *)(intptr_t)ordinal);
        pthread_detach(thread);
    }
    return 0;
}
