/* Short-lived threads that launch, under a storm of signals, in streams and contexts that come and go. */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "program.h"

static CUfunction kernel;
static volatile sig_atomic_t signals;

static void count_signal(int number) {
    (void)number;
    signals++;
}

static void *launch_some(void *ignored) {
    CUstream stream;
    (void)ignored;
    use_device(0);
    CHECK(cuStreamCreate(&stream, 1));
    for (int i = 0; i < 20; i++) {
        CHECK(launch(kernel, stream));
        CHECK(launch(kernel, NULL));
        CHECK(launch(kernel, CU_STREAM_PER_THREAD));
    }
    CHECK(cuStreamDestroy_v2(stream));
    return NULL;
}

static void *own_context(void *ignored) {
    CUcontext context;
    CUdeviceptr pointer;
    (void)ignored;
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemAlloc_v2(&pointer, 1 << 20));
    CUfunction own = kernel_named("step_1us");
    for (int i = 0; i < 20; i++)
        CHECK(launch(own, NULL));
    CHECK(cuCtxDestroy_v2(context)); /* with work in flight and memory held */
    return NULL;
}

int main(int count, char **words) {
    long rounds = count > 1 ? atol(words[1]) : 100;
    struct itimerval often = {{0, 1000}, {0, 1000}};
    signal(SIGALRM, count_signal);
    setitimer(ITIMER_REAL, &often, NULL);
    use_device(0);
    kernel = kernel_named("step_1us");
    for (long i = 0; i < rounds; i++) {
        pthread_t threads[6];
        for (int j = 0; j < 6; j++)
            EXPECT(!pthread_create(&threads[j], NULL, j < 4 ? launch_some : own_context, NULL));
        for (int j = 0; j < 6; j++)
            pthread_join(threads[j], NULL);
    }
    CHECK(cuCtxSynchronize());
    printf("%d\n", signals > 0);
    return 0;
}
