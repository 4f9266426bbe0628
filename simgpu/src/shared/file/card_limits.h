/* What the hardware of a compute capability can hold, as NVIDIA's programming guide lists it. */
#ifndef SIMGPU_CARD_LIMITS_H
#define SIMGPU_CARD_LIMITS_H

#include "layout.h"

#define SG_BLOCK_THREADS 1024
#define SG_WARP 32
#define SG_SHARED_PER_BLOCK 49152u /* without opt-in, on every card */

/* Per multiprocessor, and the memory behind them. Sizes are bytes. */
struct sg_limits {
    uint32_t major, minor;
    uint32_t threads, blocks;
    uint32_t shared, shared_opt_in, shared_reserved; /* opt-in: of one block; reserved: taken by each block */
    uint32_t l2_cache, double_ratio;
};

const struct sg_limits *sg_limits_of(const struct sg_device_card *card);

#endif
