/* Keeps streams busy, a thread for each, until it is killed; says "runs" when each of them has begun.
 * streams SECONDS KERNEL [KERNEL …] */
#include <pthread.h>
#include <stdatomic.h>

#include "program.h"

static double end;
static atomic_int running;

static void *run(void *name) {
    CUstream stream;
    use_device(0);
    CHECK(cuStreamCreate(&stream, 1));
    CUfunction kernel = kernel_named(name);
    CHECK(launch(kernel, stream));
    CHECK(cuStreamSynchronize(stream));
    atomic_fetch_add(&running, 1);
    while (seconds() < end)
        CHECK(launch(kernel, stream));
    CHECK(cuStreamSynchronize(stream));
    return NULL;
}

int main(int count, char **words) {
    pthread_t threads[16];
    EXPECT(count > 2 && count < 18);
    end = seconds() + atof(words[1]);
    use_device(0);
    for (int i = 2; i < count; i++)
        pthread_create(&threads[i - 2], NULL, run, words[i]);
    while (atomic_load(&running) < count - 2)
        sched_yield();
    printf("runs\n");
    fflush(stdout);
    for (int i = 2; i < count; i++)
        pthread_join(threads[i - 2], NULL);
    return 0;
}
