/* What programs do with a GPU that they have to themselves, one family a run; prints how many seconds it took.
 * lone FAMILY */
#include <pthread.h>
#include <unistd.h>

#include "program.h"

CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, CUstream);

struct load {
    const char *kernel;
    int times;
};

static CUstream new_stream(void) {
    CUstream stream;
    CHECK(cuStreamCreate(&stream, 1));
    return stream;
}

static void *run_load(void *argument) {
    const struct load *load = argument;
    use_device(0);
    CUstream stream = new_stream();
    CUfunction kernel = kernel_named(load->kernel);
    for (int i = 0; i < load->times; i++)
        CHECK(launch(kernel, stream));
    CHECK(cuStreamSynchronize(stream));
    return NULL;
}

/* A thread with a stream of its own for each load. */
static void at_once(const struct load *loads, int count) {
    pthread_t threads[8];
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, run_load, (void *)(uintptr_t)&loads[i]);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void one(void) { at_once((struct load[]){{"step_1ms", 600}}, 1); }
static void small(void) { at_once((struct load[]){{"step_10us", 60000}}, 1); }
static void pair_200_1(void) { at_once((struct load[]){{"long_200ms", 6}, {"step_1ms", 1000}}, 2); }
static void pair_25_1(void) { at_once((struct load[]){{"long_25ms", 40}, {"step_1ms", 1000}}, 2); }
static void pair_10_10(void) { at_once((struct load[]){{"step_10ms", 100}, {"step_10ms", 100}}, 2); }
static void pair_2_2(void) { at_once((struct load[]){{"step_2ms", 500}, {"step_2ms", 500}}, 2); }

static void four_streams(void) {
    at_once((struct load[]){{"step_5ms", 160}, {"step_5ms", 160}, {"step_5ms", 160}, {"step_5ms", 160}}, 4);
}

/* One thread, two streams in turn. */
static void alternating(void) {
    CUstream streams[2] = {new_stream(), new_stream()};
    CUfunction kernel = kernel_named("step_20us");
    for (int i = 0; i < 40000; i++)
        CHECK(launch(kernel, streams[i % 2]));
    CHECK(cuCtxSynchronize());
}

/* Steps of 100 ms that are queued at once, 90 ms of work on the host, then the end is waited for. */
static void ahead(void) {
    CUstream stream = new_stream();
    CUfunction kernel = kernel_named("step_1ms");
    for (int step = 0; step < 10; step++) {
        for (int i = 0; i < 100; i++)
            CHECK(launch(kernel, stream));
        usleep(90000);
        CHECK(cuStreamSynchronize(stream));
    }
}

/* A kernel that waits 300 ms for data and one behind it, while another stream computes. */
static void receive(void) {
    CUstream receiving = new_stream(), computing = new_stream();
    CUfunction wait = kernel_named("wait_300ms"), use = kernel_named("use_1ms"), compute = kernel_named("compute_10ms");
    for (int round = 0; round < 4; round++) {
        CHECK(launch(wait, receiving));
        CHECK(launch(use, receiving));
        for (int i = 0; i < 29; i++)
            CHECK(launch(compute, computing));
        CHECK(cuCtxSynchronize());
    }
}

static void graphs(void) {
    CUstream stream = new_stream();
    CUfunction kernel = kernel_named("step_100us");
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamBeginCapture_v2(stream, 0));
    for (int i = 0; i < 20; i++)
        CHECK(launch(kernel, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 300; i++)
        CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
}

/* Copies of 24 MB (2 ms) in one stream beside kernels in another. */
static void copies(void) {
    static char data[24000000];
    CUstream copying = new_stream(), computing = new_stream();
    CUfunction kernel = kernel_named("step_2ms");
    CUdeviceptr there;
    CHECK(cuMemAlloc_v2(&there, sizeof data));
    for (int i = 0; i < 300; i++) {
        CHECK(cuMemcpyHtoDAsync_v2(there, data, sizeof data, copying));
        CHECK(launch(kernel, computing));
    }
    CHECK(cuCtxSynchronize());
}

static void shapes(void) {
    CUstream stream = new_stream();
    CUfunction kernel = kernel_named("step_10us");
    for (unsigned i = 0; i < 60000; i++)
        CHECK(cuLaunchKernel(kernel, 1 + i, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
    CHECK(cuStreamSynchronize(stream));
}

static void allocations(void) {
    CUdeviceptr pointer;
    for (int i = 0; i < 60000; i++) {
        CHECK(cuMemAlloc_v2(&pointer, 1 << 20));
        CHECK(cuMemFree_v2(pointer));
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} families[] = {
    {"one", one},           {"small", small},       {"ahead", ahead},     {"200+1", pair_200_1}, {"25+1", pair_25_1},
    {"10+10", pair_10_10},  {"2+2", pair_2_2},      {"4x5", four_streams}, {"receive", receive}, {"alternating", alternating},
    {"graphs", graphs},     {"copies", copies},     {"shapes", shapes},   {"allocations", allocations},
};

int main(int count, char **words) {
    EXPECT(count > 1);
    use_device(0);
    CHECK(launch(kernel_named("first_1us"), NULL));
    CHECK(cuCtxSynchronize());
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].name, words[1]))
            continue;
        double began = seconds();
        families[i].run();
        printf("%.4f\n", seconds() - began);
        return 0;
    }
    fprintf(stderr, "no such family: %s\n", words[1]);
    return 5;
}
