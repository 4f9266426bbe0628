/* Counts what pools have out and in reserve, and charges the difference to the device. None of it pages. */
#include "pools.h"

#include <unistd.h>

#include "shared/process/locks.h"

#define UNIT 512ull

static struct sg_mutex pools_lock = SG_MUTEX(SG_RANK_POOLS);
static CUmemoryPool defaults[SG_DEVICES], currents[SG_DEVICES];

CUmemoryPool sg_new_pool(uint32_t device) {
    CUmemoryPool pool = sg_new_handle(SG_POOL_HANDLE, sizeof *pool);
    if (!pool)
        return NULL;
    pool->device = device;
    for (size_t i = 0; i < COUNT(pool->reuse); i++)
        pool->reuse[i] = 1;
    return pool;
}

CUmemoryPool sg_default_pool(uint32_t device) {
    sg_lock(&pools_lock);
    if (!defaults[device] && (defaults[device] = sg_new_pool(device)))
        defaults[device]->is_default = true;
    CUmemoryPool pool = defaults[device];
    sg_unlock(&pools_lock);
    return pool;
}

CUmemoryPool sg_current_pool(uint32_t device) {
    return currents[device] ? currents[device] : sg_default_pool(device);
}

static void note_most(CUmemoryPool pool) {
    uint64_t reserved = pool->used + pool->reserve;
    pool->most_used = pool->used > pool->most_used ? pool->used : pool->most_used;
    pool->most_reserved = reserved > pool->most_reserved ? reserved : pool->most_reserved;
}

/* Takes from the reserve first; what is missing is charged to the device. */
static CUresult charge(CUmemoryPool pool, CUcontext context, uint64_t bytes) {
    bool same = pool->context == context && !atomic_load(&context->gone);
    if (!same)
        pool->reserve = 0; /* went with its context */
    uint64_t from_reserve = pool->reserve < bytes ? pool->reserve : bytes;
    if (pool->maximum && pool->used + bytes > pool->maximum)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes > from_reserve) {
        CUresult result = sg_charge_plain(context, bytes - from_reserve);
        if (result != CUDA_SUCCESS)
            return result;
    }
    pool->context = context;
    pool->reserve -= from_reserve;
    pool->used += bytes;
    note_most(pool);
    return CUDA_SUCCESS;
}

CUresult sg_pool_take(CUmemoryPool pool, CUcontext context, uint64_t bytes, CUdeviceptr *pointer) {
    uint64_t charged = sg_round_up(bytes, UNIT);
    sg_lock(&pools_lock);
    CUresult result = charge(pool, context, charged);
    sg_unlock(&pools_lock);
    if (result != CUDA_SUCCESS)
        return result;
    struct sg_block *block = sg_add_block(SG_POOLED, context, bytes, 0);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->charged = charged;
    block->pool = pool;
    *pointer = block->start;
    return CUDA_SUCCESS;
}

/* The charge goes to the pool's reserve as far as the threshold allows, else back to the device. */
static void settle_free(CUmemoryPool pool, struct sg_block *block) {
    sg_lock(&pools_lock);
    uint64_t room = pool->threshold > pool->reserve ? pool->threshold - pool->reserve : 0;
    uint64_t kept = block->charged < room ? block->charged : room;
    pool->used -= pool->used < block->charged ? pool->used : block->charged;
    pool->reserve += kept;
    block->charged -= kept; /* the rest is refunded with the block */
    sg_unlock(&pools_lock);
}

void sg_pool_lose(const struct sg_block *block) {
    CUmemoryPool pool = block->pool;
    sg_lock(&pools_lock);
    if (sg_is(pool, SG_POOL_HANDLE))
        pool->used -= pool->used < block->charged ? pool->used : block->charged;
    sg_unlock(&pools_lock);
}

CUresult sg_pool_give_back(CUdeviceptr pointer) {
    struct sg_block *block = sg_find_block(pointer);
    if (!block || block->start != pointer)
        return CUDA_ERROR_INVALID_VALUE;
    if (block->of_graph) { /* its address stays the graph's */
        if (block->charged)
            sg_refund_plain(block->context, block->charged);
        block->charged = 0;
        return CUDA_SUCCESS;
    }
    if (block->kind == SG_POOLED && sg_is(block->pool, SG_POOL_HANDLE))
        settle_free(block->pool, block);
    sg_remove_block(block);
    return CUDA_SUCCESS;
}

void sg_trim_pool(CUmemoryPool pool, uint64_t keep) {
    sg_lock(&pools_lock);
    uint64_t over = pool->reserve > keep ? pool->reserve - keep : 0;
    pool->reserve -= over;
    CUcontext context = pool->context;
    sg_unlock(&pools_lock);
    if (over && sg_is(context, SG_CONTEXT_HANDLE))
        sg_refund_plain(context, over);
}

void sg_set_current_pool(CUmemoryPool pool) {
    currents[pool->device] = pool;
}

void sg_destroy_pool(CUmemoryPool pool) {
    sg_trim_pool(pool, 0);
    if (currents[pool->device] == pool)
        currents[pool->device] = NULL;
    if (pool->token && !pool->is_imported)
        close(pool->descriptor);
    sg_free_handle(pool, SG_POOL_HANDLE);
}
