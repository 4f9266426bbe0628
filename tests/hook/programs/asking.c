/* Asks for memory word by word and prints each answer; what it got it holds until its input ends.
 * asking plain=MIB own=MIB left total ipc ipc-within range huge rows stream=MIB other-stream=MIB other-pool=MIB captured=MIB free free-in-stream keep trim … */
#include <unistd.h>

#include "program.h"

CUresult cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned int);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *, CUdevice);
CUresult cuMemPoolSetAttribute(CUmemoryPool, int, void *);
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t);
CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuIpcGetMemHandle(void *, CUdeviceptr);
CUresult cuMemGetHandleForAddressRange(void *, CUdeviceptr, size_t, int, unsigned long long);

static CUdeviceptr held[64];
static int count_held;
static CUstream streams[2];
static CUmemoryPool pools[2];

static CUresult plain(size_t bytes) { return cuMemAlloc_v2(&held[count_held], bytes); }

/* Managed memory of the program's own. */
static CUresult own(size_t bytes) { return cuMemAllocManaged(&held[count_held], bytes, 1); }

/* The answer is a number of MiB. */
static CUresult left(size_t ignored) {
    size_t free, total;
    (void)ignored;
    CHECK(cuMemGetInfo_v2(&free, &total));
    return (CUresult)(free >> 20);
}

static CUresult total(size_t ignored) {
    size_t free, all;
    (void)ignored;
    CHECK(cuMemGetInfo_v2(&free, &all));
    return (CUresult)(all >> 20);
}

static CUresult huge(size_t bytes) {
    (void)bytes;
    return cuMemAlloc_v2(&held[count_held], SIZE_MAX);
}

/* Width times height is 2^64. */
static CUresult rows(size_t bytes) {
    size_t pitch;
    (void)bytes;
    return cuMemAllocPitch_v2(&held[count_held], &pitch, UINT64_C(1) << 40, UINT64_C(1) << 24, 4);
}

static CUresult stream(size_t bytes) { return cuMemAllocAsync(&held[count_held], bytes, streams[0]); }

static CUresult other_stream(size_t bytes) { return cuMemAllocAsync(&held[count_held], bytes, streams[1]); }

static CUresult other_pool(size_t bytes) {
    return cuMemAllocFromPoolAsync(&held[count_held], bytes, pools[1], streams[0]);
}

/* Of what was allocated last, or of its middle. */
static CUresult ipc(size_t ignored) {
    char handle[64];
    (void)ignored;
    return cuIpcGetMemHandle(handle, held[count_held - 1]);
}

static CUresult ipc_within(size_t ignored) {
    char handle[64];
    (void)ignored;
    return cuIpcGetMemHandle(handle, held[count_held - 1] + 4096);
}

static CUresult range(size_t ignored) {
    int descriptor;
    (void)ignored;
    return cuMemGetHandleForAddressRange(&descriptor, held[count_held - 1], 4096, 1, 0);
}

static CUresult free_last(size_t ignored) {
    (void)ignored;
    return cuMemFree_v2(held[--count_held]);
}

static CUresult free_in_stream(size_t ignored) {
    (void)ignored;
    CHECK(cuMemFreeAsync(held[--count_held], streams[0]));
    return cuStreamSynchronize(streams[0]);
}

static CUresult keep(size_t ignored) {
    uint64_t threshold = UINT64_MAX;
    (void)ignored;
    return cuMemPoolSetAttribute(pools[0], 4, &threshold);
}

/* Allocated and freed within a graph, which is launched and lives on. */
static CUresult captured(size_t bytes) {
    CUdeviceptr pointer;
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamBeginCapture_v2(streams[0], 0));
    CUresult result = cuMemAllocAsync(&pointer, bytes, streams[0]);
    if (!result)
        CHECK(cuMemFreeAsync(pointer, streams[0]));
    CHECK(cuStreamEndCapture(streams[0], &graph));
    if (result)
        return result;
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, streams[0]));
    return cuStreamSynchronize(streams[0]);
}

static CUresult trim(size_t ignored) {
    (void)ignored;
    return cuMemPoolTrimTo(pools[0], 0);
}

/* Another holder of the primary context comes and goes. */
static CUresult visit(size_t ignored) {
    CUcontext context;
    (void)ignored;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    return cuDevicePrimaryCtxRelease_v2(0);
}

static CUresult reset(size_t ignored) {
    (void)ignored;
    return cuDevicePrimaryCtxReset_v2(0);
}

/* A capture that takes memory, is made invalid, and gives no graph. */
static CUresult spoilt(size_t bytes) {
    CUdeviceptr pointer;
    CUgraph graph = NULL;
    CHECK(cuStreamBeginCapture_v2(streams[0], 0));
    CHECK(cuMemAllocAsync(&pointer, bytes, streams[0]));
    EXPECT(cuStreamSynchronize(streams[0]));
    EXPECT(cuStreamEndCapture(streams[0], &graph) && !graph);
    return CUDA_SUCCESS;
}

static const struct {
    const char *name;
    CUresult (*ask)(size_t bytes);
    int takes;
} words_known[] = {{"plain", plain, 1},
                   {"own", own, 1},
                   {"left", left, 0},
                   {"total", total, 0},
                   {"huge", huge, 1},
                   {"rows", rows, 1},
                   {"stream", stream, 1},
                   {"other-stream", other_stream, 1},
                   {"other-pool", other_pool, 1},
                   {"captured", captured, 0},
                   {"ipc", ipc, 0},
                   {"ipc-within", ipc_within, 0},
                   {"range", range, 0},
                   {"free", free_last, 0},
                   {"free-in-stream", free_in_stream, 0},
                   {"keep", keep, 0},
                   {"trim", trim, 0},
                   {"visit", visit, 0},
                   {"reset", reset, 0},
                   {"spoilt", spoilt, 0}};

static void ask(const char *word) {
    size_t length = strcspn(word, "=");
    size_t bytes = word[length] ? (size_t)atol(word + length + 1) << 20 : 0;
    for (size_t i = 0; i < sizeof words_known / sizeof *words_known; i++) {
        if (strlen(words_known[i].name) != length || strncmp(words_known[i].name, word, length))
            continue;
        CUresult result = words_known[i].ask(bytes);
        count_held += !result && words_known[i].takes;
        printf("%d\n", result);
        fflush(stdout);
        return;
    }
    EXPECT(!"a known word");
}

int main(int count, char **words) {
    int devices;
    char byte;
    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&devices));
    for (int device = devices > 1; device >= 0; device--) {
        use_device(device);
        CHECK(cuStreamCreate(&streams[device], 1));
        CHECK(cuDeviceGetDefaultMemPool(&pools[device], device));
    }
    for (int i = 1; i < count; i++)
        ask(words[i]);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}
