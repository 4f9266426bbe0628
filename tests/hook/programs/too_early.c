/* Calls the driver where it must refuse, and prints what it answers.
 * too_early before: cuInit was not called; failed: it failed; forked: it was called by the parent, who used the GPU */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, CUstream);
CUresult cuMemCreate(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);

static void call_each(void) {
    char bytes[8] = "";
    CUdeviceptr pointer;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp property = {.type = 1, .location = {.type = 1}};
    size_t free, total;
    printf("%d %d\n", cuMemcpyHtoD_v2(4096, bytes, sizeof bytes), cuMemsetD8Async(4096, 0, 8, NULL));
    printf("%d %d\n", cuMemAlloc_v2(&pointer, 1 << 20), cuMemCreate(&handle, 2 << 20, &property, 0));
    printf("%d %d\n", cuMemGetInfo_v2(&free, &total), cuStreamBeginCapture_v2(NULL, 0));
    printf("%d %d\n", cuDevicePrimaryCtxReset_v2(0), cuStreamDestroy_v2(NULL));
    fflush(stdout);
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "before";
    int status = 0;
    if (!strcmp(how, "failed"))
        printf("%d\n", cuInit(0));
    if (strcmp(how, "forked")) {
        call_each();
        return 0;
    }
    use_device(0);
    CHECK(launch(kernel_named("step_1us"), NULL));
    CHECK(cuCtxSynchronize());
    if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        call_each();
        _exit(0);
    }
    wait(&status);
    return status ? 5 : 0;
}
