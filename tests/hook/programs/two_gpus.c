/* Two threads, a GPU each, launching independently for so many seconds. two_gpus SECONDS KERNEL */
#include <pthread.h>

#include "program.h"

static double end;
static const char *name;

static void *run(void *device) {
    use_device((int)(intptr_t)device);
    CUfunction kernel = kernel_named(name);
    while (seconds() < end)
        CHECK(launch(kernel, NULL));
    CHECK(cuCtxSynchronize());
    return NULL;
}

int main(int count, char **words) {
    pthread_t threads[2];
    (void)count;
    end = seconds() + atof(words[1]);
    name = words[2];
    for (intptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
