/* ns of processor time a launch, empty kernels, so many threads, each with a stream of its own. Least of several rounds:
 * the machine is shared.  bench_launch THREADS LAUNCHES ROUNDS [STREAMS]: so many streams a thread, in turn */
#include <pthread.h>

#include "program.h"

static long launches;
static int rounds, streams;
static CUfunction kernel;

static double processor_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void *run(void *best) {
    CUstream stream[2] = {NULL, NULL};
    use_device(0);
    for (int i = 0; i < streams; i++)
        CHECK(cuStreamCreate(&stream[i], 1));
    if (streams == 1)
        stream[1] = stream[0];
    *(double *)best = 1e9;
    for (int round = 0; round < rounds; round++) {
        double began = processor_ns();
        for (long i = 0; i < launches; i++)
            CHECK(launch(kernel, stream[i & 1]));
        double each = (processor_ns() - began) / (double)launches;
        *(double *)best = each < *(double *)best ? each : *(double *)best;
    }
    return NULL;
}

int main(int count, char **words) {
    int threads = count > 1 ? atoi(words[1]) : 1;
    launches = count > 2 ? atol(words[2]) : 1000000;
    rounds = count > 3 ? atoi(words[3]) : 5;
    streams = count > 4 ? atoi(words[4]) : 0;
    pthread_t ids[64];
    double best[64], sum = 0;
    use_device(0);
    kernel = kernel_named("empty_0ns");
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, run, &best[i]);
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        sum += best[i];
    }
    printf("%.2f\n", sum / threads);
    return 0;
}
