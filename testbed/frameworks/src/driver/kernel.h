/* A kernel of a stand-in: it computes nothing and takes a time.
 *
 * Its name ends in `_param`: the software GPU reads its length, in nanoseconds, from its first parameter.
 */
#ifndef STANDIN_KERNEL_H
#define STANDIN_KERNEL_H

#include "driver.h"

/* One for each name; `kernel` is found at the first launch. */
struct kernel {
    const char *name;
    CUkernel kernel;
};

/* The context of a stream is the current one; blocks say how large the work is, as they do for real kernels. */
CUresult kernel_launch(struct kernel *kernel, CUstream stream, uint64_t ns, unsigned blocks_x, unsigned blocks_y);

/* How long a matrix product takes, and on how many blocks it runs. */
CUresult kernel_product(struct kernel *kernel, CUstream stream, uint64_t m, uint64_t n, uint64_t k, uint64_t batch);

#endif
