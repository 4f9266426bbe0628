/* Occupancy: how many blocks of a function a multiprocessor holds, by threads, blocks, registers and shared memory.
 *
 * cuda.h: each of these functions also takes a CUkernel that is cast to CUfunction, and then counts for the current
 * context.
 */
#include "attributes.h"

#include <string.h>

#include "driver/base/thread.h"
#include "library.h"

#define REGISTERS 65536u
#define PORTABLE_CLUSTER 8
#define CLUSTER_DIMENSION 4u

static CUresult find(CUfunction *function, const void *out) {
    NEED_INIT();
    CUcontext context;
    CUresult result = sg_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (sg_is(*function, SG_KERNEL_HANDLE))
        *function = sg_function_of_kernel(*function, context);
    if (!sg_is(*function, SG_FUNCTION_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static unsigned least(unsigned one, unsigned other) {
    return one < other ? one : other;
}

static unsigned in_warps(unsigned threads) {
    return (threads + SG_WARP - 1) / SG_WARP * SG_WARP;
}

static unsigned blocks_at_once(CUfunction function, unsigned threads, size_t shared) {
    const struct sg_limits *limits = sg_limits_of(sg_card_of_function(function));
    size_t each = shared ? shared + limits->shared_reserved : 0;
    if (threads == 0 || shared > sg_shared_limit(function))
        return 0;
    unsigned blocks = least(limits->blocks, limits->threads / in_warps(threads));
    blocks = least(blocks, REGISTERS / (in_warps(threads) * (unsigned)sg_function_attribute(function, 4)));
    return each ? least(blocks, (unsigned)(limits->shared / each)) : blocks;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared) {
    CUresult result = find(&function, blocks);
    if (result == CUDA_SUCCESS && threads < 1)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *blocks = threads > SG_BLOCK_THREADS ? 0 : (int)blocks_at_once(function, (unsigned)threads, shared);
    return result;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
                                                              size_t shared, unsigned flags) {
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

/* The largest block among those that keep most threads on a multiprocessor. */
static unsigned best_block(CUfunction function, CUoccupancyB2DSize shared_of, size_t shared, unsigned most) {
    unsigned best = 0, best_threads = 0;
    for (unsigned threads = in_warps(most); threads; threads -= SG_WARP) {
        unsigned block = least(threads, most);
        unsigned held = block * blocks_at_once(function, block, shared_of ? shared_of((int)block) : shared);
        if (held > best_threads)
            best = block, best_threads = held;
    }
    return best;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, CUoccupancyB2DSize shared_of,
                                          size_t shared, int limit) {
    CUresult result = find(&function, grid);
    if (result != CUDA_SUCCESS || !block || limit < 0)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    unsigned most = limit ? least((unsigned)limit, SG_BLOCK_THREADS) : SG_BLOCK_THREADS;
    unsigned best = best_block(function, shared_of, shared, most);
    size_t taken = shared_of && best ? shared_of((int)best) : shared;
    *block = (int)best;
    *grid = (int)(sg_card_of_function(function)->multiprocessors * blocks_at_once(function, best, taken));
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t shared, int limit,
                                                   unsigned flags) {
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    return cuOccupancyMaxPotentialBlockSize(grid, block, function, shared_of, shared, limit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int threads) {
    CUresult result = find(&function, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    if (blocks < 1 || threads < 1)
        return CUDA_ERROR_INVALID_VALUE;
    const struct sg_limits *limits = sg_limits_of(sg_card_of_function(function));
    unsigned each = limits->shared / (unsigned)blocks;
    each = each > limits->shared_reserved ? each - limits->shared_reserved : 0;
    *bytes = least(each, sg_shared_limit(function));
    return CUDA_SUCCESS;
}

/* ---- clusters: of compute capability 9 */

static CUresult find_cluster(CUfunction *function, const void *out, const CUlaunchConfig *config) {
    CUresult result = find(function, out);
    if (result == CUDA_SUCCESS && !config)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && sg_card_of_function(*function)->capability_major < 9)
        result = CUDA_ERROR_NOT_SUPPORTED;
    return result;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function, const CUlaunchConfig *config) {
    CUresult result = find_cluster(&function, size, config);
    if (result == CUDA_SUCCESS)
        *size = sg_function_attribute(function, 14) ? 2 * PORTABLE_CLUSTER : PORTABLE_CLUSTER;
    return result;
}

static unsigned cluster_of(const CUlaunchConfig *config) {
    unsigned side[3] = {0};
    for (unsigned i = 0; i < config->numAttrs; i++)
        if (config->attrs[i].id == CLUSTER_DIMENSION)
            memcpy(side, &config->attrs[i].value, sizeof side);
    return side[0] * side[1] * side[2];
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function, const CUlaunchConfig *config) {
    CUresult result = find_cluster(&function, count, config);
    if (result != CUDA_SUCCESS)
        return result;
    unsigned cluster = cluster_of(config), threads = config->blockDimX * config->blockDimY * config->blockDimZ;
    if (cluster == 0 || threads > SG_BLOCK_THREADS)
        return CUDA_ERROR_INVALID_VALUE;
    if (cluster > 2 * PORTABLE_CLUSTER)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    unsigned held = blocks_at_once(function, threads, config->sharedMemBytes);
    *count = (int)(sg_card_of_function(function)->multiprocessors * held / cluster);
    return CUDA_SUCCESS;
}
