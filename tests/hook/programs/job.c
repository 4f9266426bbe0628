/* A training job: in each phase the GPU computes for a part of it, kernel by kernel, over all its memory, and the host for the
 * rest.  Prints its seconds.  job GIGABYTES PHASE_SECONDS GPU_SHARE PHASES KERNEL */
#include <unistd.h>

#include "program.h"

int main(int count, char **words) {
    double gigabytes = atof(words[1]), phase = atof(words[2]), share = atof(words[3]), began;
    int phases = atoi(words[4]);
    CUdeviceptr pointer;
    (void)count;
    use_device(0);
    CUfunction kernel = kernel_named(words[5]);
    double length = atof(strrchr(words[5], '_') + 1) / 1e3;
    CHECK(cuMemAlloc_v2(&pointer, (size_t)(gigabytes * 1073741824)));
    began = seconds();
    for (int i = 0; i < phases; i++) {
        for (double done = 0; done < phase * share; done += length) {
            CHECK(launch(kernel, NULL));
            CHECK(cuCtxSynchronize());
        }
        usleep((useconds_t)(phase * (1 - share) * 1e6));
    }
    printf("%.3f\n", seconds() - began);
    return 0;
}
