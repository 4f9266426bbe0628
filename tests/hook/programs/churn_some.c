/* Two threads allocate and free at random, so many times. churn_some TIMES */
#include <pthread.h>

#include "program.h"

static long times;

static void *churn(void *seed) {
    CUdeviceptr held[64] = {0};
    unsigned state = (unsigned)(uintptr_t)seed;
    use_device(0);
    for (long i = 0; i < times; i++) {
        int place = rand_r(&state) % 64;
        if (held[place])
            CHECK(cuMemFree_v2(held[place]));
        CHECK(cuMemAlloc_v2(&held[place], (size_t)(1 + rand_r(&state) % 64) << 10));
    }
    return NULL;
}

int main(int count, char **words) {
    pthread_t threads[2];
    times = count > 1 ? atol(words[1]) : 1000;
    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
