/* Goes through the families of the driver API on several threads at once: for the sanitizers, not for results.
 *
 * Two threads share a context and its streams, a third makes and destroys contexts, a fourth asks NVML-like questions;
 * any answer but success ends the program with the line that got it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../simgpu/src/driver/abi/api.h"

#define ROUNDS 12
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        CUresult result = (call);                                                                                      \
        if (result != CUDA_SUCCESS) {                                                                                  \
            fprintf(stderr, "line %d: %s says %d\n", __LINE__, #call, (int)result);                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static CUcontext shared;
static CUfunction short_kernel, no_kernel;
static CUstream streams[3];

static void bump(void *counter) {
    __atomic_fetch_add((int *)counter, 1, __ATOMIC_RELAXED);
}

static void launch_and_wait(CUstream stream) {
    CUevent start, end;
    float milliseconds;
    TRY(cuEventCreate(&start, 0));
    TRY(cuEventCreate(&end, 0));
    TRY(cuEventRecord(start, stream));
    for (int i = 0; i < 5; i++) {
        TRY(cuLaunchKernel(short_kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
        TRY(cuLaunchKernel(no_kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    }
    TRY(cuEventRecord(end, stream));
    TRY(cuEventSynchronize(end));
    TRY(cuEventElapsedTime(&milliseconds, start, end));
    TRY(cuEventDestroy_v2(start));
    TRY(cuEventDestroy_v2(end));
}

static void use_memory(CUstream stream) {
    CUdeviceptr plain, managed, ordered;
    char text[256] = "text";
    TRY(cuMemAlloc_v2(&plain, 4096));
    TRY(cuMemAllocManaged(&managed, 1 << 20, 1));
    TRY(cuMemAllocAsync(&ordered, 4096, stream));
    TRY(cuMemcpyHtoDAsync_v2(plain, text, sizeof text, stream));
    TRY(cuMemcpyDtoDAsync_v2(ordered, plain, sizeof text, stream));
    TRY(cuMemsetD32Async(ordered + 64, 7, 16, stream));
    TRY(cuMemsetD8Async(managed, 7, 1 << 19, stream));
    TRY(cuMemcpyDtoHAsync_v2(text, ordered, sizeof text, stream));
    TRY(cuStreamSynchronize(stream));
    if (strcmp(text, "text") != 0)
        exit(2);
    TRY(cuMemFreeAsync(ordered, stream));
    TRY(cuMemFree_v2(plain));
    TRY(cuMemFree_v2(managed));
}

/* What other processes could open: none does here. */
static void share(CUstream stream) {
    CUipcEventHandle event_handle;
    CUipcMemHandle memory_handle;
    CUevent event;
    CUdeviceptr plain;
    TRY(cuEventCreate(&event, 6));
    TRY(cuIpcGetEventHandle(&event_handle, event));
    TRY(cuEventRecord(event, stream));
    TRY(cuStreamWaitEvent(streams[0], event, 0));
    TRY(cuEventSynchronize(event));
    TRY(cuEventDestroy_v2(event));
    TRY(cuMemAlloc_v2(&plain, 8192));
    TRY(cuIpcGetMemHandle(&memory_handle, plain));
    TRY(cuMemsetD8Async(plain, 3, 8192, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemFree_v2(plain));
}

static void share_physical(void) {
    const CUmemAllocationProp prop = {.type = 1, .requestedHandleTypes = 1, .location = {.type = 1}};
    const CUmemAccessDesc access = {.location = {.type = 1}, .flags = 3};
    CUmemGenericAllocationHandle made, imported;
    CUdeviceptr address;
    int descriptor;
    TRY(cuMemCreate(&made, 2 << 20, &prop, 0));
    TRY(cuMemExportToShareableHandle(&descriptor, made, 1, 0));
    TRY(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor, 1));
    close(descriptor);
    TRY(cuMemAddressReserve(&address, 2 << 20, 0, 0, 0));
    TRY(cuMemMap(address, 2 << 20, 0, imported, 0));
    TRY(cuMemSetAccess(address, 2 << 20, &access, 1));
    TRY(cuMemsetD8_v2(address, 1, 64));
    TRY(cuMemUnmap(address, 2 << 20));
    TRY(cuMemAddressFree(address, 2 << 20));
    TRY(cuMemRelease(imported));
    TRY(cuMemRelease(made));
}

static void use_green(void) {
    CUdevResource whole, group;
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUstream stream;
    unsigned groups = 1;
    int blocks;
    TRY(cuDeviceGetDevResource(0, &whole, 1));
    TRY(cuDevSmResourceSplitByCount(&group, &groups, &whole, NULL, 0, 8));
    TRY(cuDevResourceGenerateDesc(&description, &group, 1));
    TRY(cuGreenCtxCreate(&green, description, 0, 1));
    TRY(cuGreenCtxStreamCreate(&stream, green, 1, 0));
    TRY(cuLaunchKernel(short_kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    TRY(cuStreamSynchronize(stream));
    TRY(cuStreamDestroy_v2(stream));
    TRY(cuGreenCtxDestroy(green));
    TRY(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, short_kernel, 128, 0));
    TRY(cuFuncSetAttribute(short_kernel, 8, 1024 * blocks));
}

static void capture_and_run(CUstream stream) {
    CUgraph graph, copy;
    CUgraphExec exec;
    int counter = 0;
    CUstreamCaptureMode mode = 2;
    TRY(cuThreadExchangeStreamCaptureMode(&mode));
    TRY(cuStreamBeginCapture_v2(stream, 2));
    for (int i = 0; i < 4; i++)
        TRY(cuLaunchKernel(short_kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    TRY(cuLaunchHostFunc(stream, bump, &counter));
    TRY(cuStreamEndCapture(stream, &graph));
    TRY(cuGraphClone(&copy, graph));
    TRY(cuGraphInstantiateWithFlags(&exec, copy, 0));
    TRY(cuGraphLaunch(exec, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuGraphExecDestroy(exec));
    TRY(cuGraphDestroy(graph));
    TRY(cuGraphDestroy(copy));
    if (counter != 1)
        exit(3);
}

static void *work(void *given) {
    CUstream own;
    TRY(cuCtxSetCurrent(shared));
    TRY(cuStreamCreate(&own, 1));
    for (int i = 0; i < ROUNDS; i++) {
        launch_and_wait(streams[i % 3]);
        use_memory(own);
        share(own);
        if (given) {
            capture_and_run(own);
            share_physical();
            use_green();
        }
    }
    TRY(cuStreamDestroy_v2(own));
    return NULL;
}

static void *make_contexts(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        CUcontext context;
        CUdeviceptr pointer;
        TRY(cuCtxCreate_v2(&context, 0, i % 2));
        TRY(cuMemAlloc_v2(&pointer, 1 << 20));
        TRY(cuCtxSynchronize());
        TRY(cuCtxDestroy_v2(context));
    }
    return NULL;
}

static void *ask(void *unused) {
    (void)unused;
    TRY(cuCtxSetCurrent(shared));
    for (int i = 0; i < 20 * ROUNDS; i++) {
        size_t left, all;
        void *function;
        TRY(cuMemGetInfo_v2(&left, &all));
        TRY(cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, NULL));
        CUresult result = cuStreamQuery(streams[i % 3]);
        if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
            exit(4);
    }
    return NULL;
}

int main(void) {
    void *(*const jobs[])(void *) = {work, work, make_contexts, ask};
    pthread_t threads[4];
    CUmodule module;
    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&shared, 0));
    TRY(cuCtxSetCurrent(shared));
    TRY(cuModuleLoadData(&module, "SGPU"));
    TRY(cuModuleGetFunction(&short_kernel, module, "step_20us"));
    TRY(cuModuleGetFunction(&no_kernel, module, "nothing"));
    for (int i = 0; i < 3; i++)
        TRY(cuStreamCreate(&streams[i], 1));
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, jobs[i], i == 1 ? &module : NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    TRY(cuModuleUnload(module));
    TRY(cuDevicePrimaryCtxRelease_v2(0));
    puts("done");
    return 0;
}
