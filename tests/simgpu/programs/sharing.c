/* Shares memory and an event with another process until it is killed.
 *
 *   sharing own     writes two handles to its output, then launches and records for ever
 *   sharing use     reads them from its input, then opens, writes, waits and closes until the owner is gone: ends with 0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../simgpu/src/driver/abi/api.h"

#define BYTES 65536
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        CUresult result = (call);                                                                                      \
        if (result != CUDA_SUCCESS) {                                                                                  \
            fprintf(stderr, "line %d: %s says %d\n", __LINE__, #call, (int)result);                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

struct handles {
    CUipcMemHandle memory;
    CUipcEventHandle event;
};

static CUfunction step;

static void begin(void) {
    CUcontext context;
    CUmodule module;
    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&context, 0));
    TRY(cuCtxSetCurrent(context));
    TRY(cuModuleLoadData(&module, "SGPU"));
    TRY(cuModuleGetFunction(&step, module, "step_200us"));
}

static void own(void) {
    struct handles handles;
    CUdeviceptr memory;
    CUevent event;
    TRY(cuMemAlloc_v2(&memory, BYTES));
    TRY(cuEventCreate(&event, 6));
    TRY(cuIpcGetMemHandle(&handles.memory, memory));
    TRY(cuIpcGetEventHandle(&handles.event, event));
    if (fwrite(&handles, sizeof handles, 1, stdout) != 1 || fflush(stdout))
        exit(2);
    for (;;) {
        TRY(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        TRY(cuEventRecord(event, NULL));
        TRY(cuMemsetD8_v2(memory, 1, BYTES));
    }
}

static void use(void) {
    struct handles handles;
    CUdeviceptr memory;
    CUevent event;
    if (fread(&handles, sizeof handles, 1, stdin) != 1)
        exit(3);
    for (;;) {
        CUresult opened = cuIpcOpenMemHandle_v2(&memory, handles.memory, 1);
        if (opened == CUDA_ERROR_INVALID_HANDLE)
            return;
        TRY(opened);
        opened = cuIpcOpenEventHandle(&event, handles.event);
        TRY(opened == CUDA_ERROR_INVALID_HANDLE ? CUDA_SUCCESS : opened);
        TRY(cuMemsetD8_v2(memory, 2, BYTES));
        if (opened == CUDA_SUCCESS) {
            TRY(cuStreamWaitEvent(NULL, event, 0));
            TRY(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
            TRY(cuEventSynchronize(event));
            TRY(cuEventDestroy_v2(event));
        }
        TRY(cuStreamSynchronize(NULL));
        TRY(cuIpcCloseMemHandle(memory));
    }
}

int main(int count, char **words) {
    begin();
    if (count == 2 && !strcmp(words[1], "own"))
        own();
    else if (count == 2 && !strcmp(words[1], "use"))
        use();
    else
        return 64;
    return 0;
}
