/* A training job, as simgpu's calibration has it: in each round the host computes, then the GPU, over all the job's memory;
 * one kernel runs and one waits behind it.  job BYTES HOST_SECONDS KERNELS ROUNDS KERNEL */
#include <unistd.h>

#include "program.h"

CUresult cuEventCreate(CUevent *event, unsigned int flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventSynchronize(CUevent event);

int main(int count, char **words) {
    double host = atof(words[2]);
    int kernels = atoi(words[3]), rounds = atoi(words[4]);
    CUdeviceptr pointer;
    CUevent ended[2];
    (void)count;
    use_device(0);
    CUfunction kernel = kernel_named(words[5]);
    CHECK(cuMemAllocManaged(&pointer, (size_t)atof(words[1]), 1));
    for (int i = 0; i < 2; i++)
        CHECK(cuEventCreate(&ended[i], 0));
    for (int round = 0; round < rounds; round++) {
        usleep((useconds_t)(host * 1e6));
        for (int i = 0; i < kernels; i++) {
            CHECK(cuEventSynchronize(ended[i % 2]));
            CHECK(launch(kernel, NULL));
            CHECK(cuEventRecord(ended[i % 2], NULL));
        }
        CHECK(cuCtxSynchronize());
    }
    return 0;
}
