/* The driver's memory pools: which there are, and what they keep.
 *
 * The rule: what a pool keeps of what was freed stays counted until the driver says that the pool has let go of it.
 * To trim pools may take the driver long, and yields ask what pools keep: no lock is held meanwhile.  A pool is forgotten,
 * and so destroyed, only when no trim is under way. */
#include "memory/pools.h"

#include "driver/contexts.h"
#include "driver/devices.h"
#include "driver/lookup.h"
#include "memory/memory.h"
#include "process/cancel.h"
#include "process/lock_order.h"

enum { RESERVED_MEM_CURRENT = 5 };
enum { MOST_POOLS = 256 };

struct pool {
    CUmemoryPool handle;
    int gpu; /* negative: the host's, or another container's GPU */
};

static struct {
    struct pool pools[MOST_POOLS]; /* of more, what they keep is not seen */
    _Atomic int count;
    int trims; /* under way */
    pthread_cond_t trimmed;
} known = {.trimmed = PTHREAD_COND_INITIALIZER};

static struct pool *find(CUmemoryPool handle) {
    for (int i = 0; i < known.count; i++)
        if (known.pools[i].handle == handle)
            return &known.pools[i];
    return NULL;
}

void pools_note(CUmemoryPool handle, int gpu) {
    lock_take(LOCK_POOLS);
    if (!find(handle) && known.count < MOST_POOLS)
        known.pools[known.count++] = (struct pool){handle, gpu};
    lock_release(LOCK_POOLS);
}

void pools_drop(CUmemoryPool handle) {
    lock_take(LOCK_POOLS);
    while (known.trims)
        lock_wait(LOCK_POOLS, &known.trimmed);
    struct pool *found = find(handle);
    if (found)
        *found = known.pools[--known.count];
    lock_release(LOCK_POOLS);
}

bool pools_find(CUmemoryPool handle, int *gpu) {
    lock_take(LOCK_POOLS);
    const struct pool *found = find(handle);
    if (found)
        *gpu = found->gpu;
    lock_release(LOCK_POOLS);
    return found != NULL;
}

/* Those of a GPU whose primary context has ended are gone with it. */
void pools_forget_ended(void) {
    int kept = 0;
    lock_take(LOCK_POOLS);
    for (int i = 0; i < known.count; i++)
        if (known.pools[i].gpu < 0 || primary_is_active(devices_ordinal(known.pools[i].gpu)))
            known.pools[kept++] = known.pools[i];
    known.count = kept;
    lock_release(LOCK_POOLS);
}

void pools_after_fork(void) {
    known.count = known.trims = 0;
    pthread_cond_init(&known.trimmed, NULL);
}

/* ------------------------------------------------------------------------------------------------ what they keep */

bool pools_look(int gpu) {
    uint64_t all = 0, reserved;
    if (!known.count)
        return memory_settle_pools(gpu, 0);
    lock_take(LOCK_POOLS); /* none is destroyed while it is asked, and the last answer is what counts */
    for (int i = 0; i < known.count && DRIVER_HAS(cuMemPoolGetAttribute); i++)
        if (known.pools[i].gpu == gpu &&
            driver.cuMemPoolGetAttribute(known.pools[i].handle, RESERVED_MEM_CURRENT, &reserved) == CUDA_SUCCESS)
            all += reserved;
    bool is_told = memory_settle_pools(gpu, all);
    lock_release(LOCK_POOLS);
    return is_told;
}

void pools_trim(int gpu) {
    NOT_CANCELLED;
    CUmemoryPool handles[MOST_POOLS];
    int count = 0;
    lock_take(LOCK_POOLS);
    for (int i = 0; i < known.count; i++)
        if (known.pools[i].gpu == gpu)
            handles[count++] = known.pools[i].handle;
    known.trims++;
    lock_release(LOCK_POOLS);
    for (int i = 0; i < count && DRIVER_HAS(cuMemPoolTrimTo); i++)
        driver.cuMemPoolTrimTo(handles[i], 0);
    lock_take(LOCK_POOLS);
    if (!--known.trims)
        pthread_cond_broadcast(&known.trimmed);
    lock_release(LOCK_POOLS);
}
