/* Calls whatever needs a turn or memory, and prints each answer, again and again until its input ends; with `held` it launches
 * only, until it is killed. */
#include <unistd.h>

#include "program.h"

CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
CUresult cuMemCreate(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
CUresult cuArrayCreate_v2(CUarray *, const CUDA_ARRAY_DESCRIPTOR *);

int main(int count, char **words) {
    CUdeviceptr pointer;
    CUarray array;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp property = {.type = 1, .location = {.type = 1}};
    char bytes[8] = "";
    (void)words;
    use_device(0);
    CUfunction kernel = kernel_named("step_1us");
    do {
        printf("%d", launch(kernel, NULL));
        if (count < 2)
            printf(" %d %d %d %d %d %d", cuMemcpyHtoD_v2(4096, bytes, sizeof bytes), cuMemAlloc_v2(&pointer, 1 << 20),
                   cuMemAllocManaged(&pointer, 1 << 20, 1), cuMemAllocAsync(&pointer, 1 << 20, NULL),
                   cuMemCreate(&handle, 2 << 20, &property, 0),
                   cuArrayCreate_v2(&array, &(CUDA_ARRAY_DESCRIPTOR){64, 64, 0x20, 1}));
        printf("\n");
        fflush(stdout);
    } while (count > 1 || read(0, bytes, 1) > 0);
    return 0;
}
