/* Handles come from pools by kind and go back to them, never to the allocator: a stale handle reads as destroyed. */
#include "handles.h"

#include <stdlib.h>
#include <string.h>

#include "shared/process/locks.h"

struct pool {
    struct sg_handle *oldest, *newest;
    size_t count;
};

#define RESERVE 64 /* so many destroyed handles are kept back before one is used again */

static struct pool pools[SG_HANDLE_KINDS];
static struct sg_mutex pools_lock = SG_MUTEX(SG_RANK_HANDLES);

static struct sg_handle *take_old(struct pool *pool) {
    if (pool->count <= RESERVE)
        return NULL;
    struct sg_handle *handle = pool->oldest;
    pool->oldest = handle->next_free;
    pool->count--;
    return handle;
}

void *sg_new_handle(enum sg_handle_kind kind, size_t bytes) {
    sg_lock(&pools_lock);
    struct sg_handle *handle = take_old(&pools[kind]);
    sg_unlock(&pools_lock);
    if (handle)
        memset(handle, 0, bytes);
    else
        handle = calloc(1, bytes);
    if (handle)
        handle->kind = kind;
    return handle;
}

void sg_free_handle(void *given, enum sg_handle_kind kind) {
    struct sg_handle *handle = given;
    struct pool *pool = &pools[kind];
    sg_lock(&pools_lock);
    handle->kind = SG_NO_HANDLE;
    handle->next_free = NULL;
    if (pool->count++ == 0)
        pool->oldest = handle;
    else
        pool->newest->next_free = handle;
    pool->newest = handle;
    sg_unlock(&pools_lock);
}
