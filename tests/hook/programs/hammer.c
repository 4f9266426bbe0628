/* Launches as fast as it may, in so many threads, until told by the end of its input.  hammer THREADS [kernel] [stream] */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "program.h"

static atomic_bool is_over;
static CUfunction kernel;
static int with_stream;

static void *run(void *ignored) {
    CUstream stream = NULL;
    (void)ignored;
    use_device(0);
    if (with_stream)
        CHECK(cuStreamCreate(&stream, 1));
    while (!atomic_load(&is_over))
        CHECK(launch(kernel, stream));
    return NULL;
}

int main(int count, char **words) {
    int threads = count > 1 ? atoi(words[1]) : 1;
    pthread_t ids[64];
    char byte;
    use_device(0);
    kernel = kernel_named(count > 2 ? words[2] : "step_1us");
    with_stream = count > 3;
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, run, NULL);
    while (read(0, &byte, 1) > 0)
        ;
    atomic_store(&is_over, 1);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    CHECK(cuCtxSynchronize());
    return 0;
}
