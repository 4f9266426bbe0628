/* What calls of the driver cost, in nanoseconds of processor time: launches on 1 and 4 threads, and a round through the
 * device. Works on any libcuda.so.1: the kernel is real PTX, and does nothing.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                     void **);
static int (*set_current)(void *);
static int (*synchronize)(void);
static int (*make_stream)(void **, unsigned);
static void *context, *function;
static long launches, batch;

static const char PTX[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";

static double thread_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void *run(void *result) {
    void *stream = NULL;
    double spent = 0;
    set_current(context);
    make_stream(&stream, 1);
    for (long done = 0; done < launches; done += batch) {
        double began = thread_ns();
        for (long i = 0; i < batch; i++)
            if (launch(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) != 0)
                exit(3);
        spent += thread_ns() - began;
        if (batch < launches)
            synchronize(); /* a real queue must not fill, or its blocking would be measured */
    }
    *(double *)result = spent / (double)launches;
    return NULL;
}

static double measure(int threads) {
    pthread_t thread[16];
    double cost[16], sum = 0;
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, run, &cost[i]);
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        sum += cost[i];
    }
    return sum / threads;
}

#define FIND(type, name) ((type)dlsym(library, name))

int main(int argc, char **argv) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *module;
    launches = argc > 1 ? atol(argv[1]) : 1000000;
    batch = argc > 2 ? atol(argv[2]) : launches;
    if (!library)
        return 2;
    int (*init)(unsigned) = FIND(int (*)(unsigned), "cuInit");
    int (*retain)(void **, int) = FIND(int (*)(void **, int), "cuDevicePrimaryCtxRetain");
    int (*load)(void **, const void *) = FIND(int (*)(void **, const void *), "cuModuleLoadData");
    int (*find)(void **, void *, const char *) = FIND(int (*)(void **, void *, const char *), "cuModuleGetFunction");
    set_current = FIND(int (*)(void *), "cuCtxSetCurrent");
    synchronize = FIND(int (*)(void), "cuCtxSynchronize");
    make_stream = FIND(int (*)(void **, unsigned), "cuStreamCreate");
    *(void **)&launch = dlsym(library, "cuLaunchKernel");
    if (init(0) || retain(&context, 0) || set_current(context) || load(&module, PTX) ||
        find(&function, module, "nothing"))
        return 3;
    measure(1); /* warm */
    printf("%.3f\n%.3f\n", measure(1), measure(4));
    return 0;
}
