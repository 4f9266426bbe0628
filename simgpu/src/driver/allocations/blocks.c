/* A treap of address ranges, and the charges on the shared devices. Content is kept in ordinary anonymous memory. */
#define _GNU_SOURCE
#include "blocks.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/base/places.h"
#include "shared/devices/paging.h"
#include "shared/process/locks.h"
#include "shared/process/transaction.h"

static struct sg_mutex tree_lock = SG_MUTEX(SG_RANK_BLOCKS);
static struct sg_block *root;
static uint64_t next_id = 1;

/* ---- the tree */

static void split(struct sg_block *tree, uint64_t start, struct sg_block **below, struct sg_block **above) {
    if (!tree) {
        *below = *above = NULL;
    } else if (tree->start < start) {
        *below = tree;
        split(tree->right, start, &tree->right, above);
    } else {
        *above = tree;
        split(tree->left, start, below, &tree->left);
    }
}

static struct sg_block *merge(struct sg_block *below, struct sg_block *above) {
    if (!below || !above)
        return below ? below : above;
    if (below->rank > above->rank) {
        below->right = merge(below->right, above);
        return below;
    }
    above->left = merge(below, above->left);
    return above;
}

static uint32_t random_rank(void) {
    static uint32_t state = 2463534242u;
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state;
}

static void insert(struct sg_block *block) {
    struct sg_block *below, *above;
    block->rank = random_rank();
    split(root, block->start, &below, &above);
    root = merge(merge(below, block), above);
}

static void take_out(struct sg_block *block) {
    struct sg_block *below, *rest, *above;
    split(root, block->start, &below, &rest);
    split(rest, block->start + 1, &rest, &above);
    root = merge(below, above);
}

struct sg_block *sg_find_block(uint64_t address) {
    struct sg_block *found = NULL;
    sg_lock(&tree_lock);
    for (struct sg_block *at = root; at;) {
        if (at->start <= address)
            found = at;
        at = at->start <= address ? at->right : at->left;
    }
    sg_unlock(&tree_lock);
    return found && address - found->start < found->bytes ? found : NULL;
}

/* ---- blocks */

struct sg_block *sg_enter_block(enum sg_block_kind kind, CUcontext context, uint64_t start, uint64_t bytes) {
    struct sg_block *block = calloc(1, sizeof *block);
    if (!block)
        return NULL;
    block->start = start;
    block->bytes = bytes;
    block->kind = kind;
    block->context = context;
    block->device = context ? context->device : 0;
    sg_lock(&tree_lock);
    block->id = next_id++;
    insert(block);
    sg_unlock(&tree_lock);
    return block;
}

/* Reserves more than needed and gives the ends back, so that the start is aligned. */
static void *map_aligned(uint64_t bytes, uint64_t alignment) {
    uint64_t spare = alignment > SG_PAGE ? alignment : 0;
    char *base = mmap(NULL, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    if (!spare)
        return base;
    uint64_t before = sg_round_up((uint64_t)(uintptr_t)base, alignment) - (uint64_t)(uintptr_t)base;
    if (before)
        munmap(base, before);
    if (spare - before)
        munmap(base + before + bytes, spare - before);
    return base + before;
}

struct sg_block *sg_add_block(enum sg_block_kind kind, CUcontext context, uint64_t bytes, uint64_t alignment) {
    uint64_t mapped = sg_round_up(bytes, SG_PAGE);
    if (bytes == 0 || bytes > 1ull << 46)
        return NULL;
    void *base = map_aligned(mapped, alignment);
    if (!base)
        return NULL;
    struct sg_block *block = sg_enter_block(kind, context, (uint64_t)(uintptr_t)base, bytes);
    if (!block)
        munmap(base, mapped);
    return block;
}

static void refund(const struct sg_block *block) {
    if (!block->charged || !block->context)
        return;
    if (block->kind == SG_MANAGED)
        sg_refund_managed(block->context, block->touched);
    else
        sg_refund_plain(block->context, block->charged);
}

static void unmap(struct sg_block *block) {
    if (block->kind != SG_REGISTERED)
        munmap((void *)(uintptr_t)block->start, sg_mapped_bytes(block));
    if (block->exported)
        close(block->exported_descriptor);
    free(block->exported);
    free(block);
}

void sg_remove_block(struct sg_block *block) {
    sg_lock(&tree_lock);
    take_out(block);
    sg_unlock(&tree_lock);
    refund(block);
    unmap(block);
}

static struct sg_block *first_of(struct sg_block *tree, CUcontext context) {
    if (!tree)
        return NULL;
    if (tree->context == context)
        return tree;
    struct sg_block *found = first_of(tree->left, context);
    return found ? found : first_of(tree->right, context);
}

/* The context ends: the device forgets the charges by itself. */
void sg_forget_blocks(CUcontext context, void (*lose)(const struct sg_block *block)) {
    sg_lock(&tree_lock);
    for (struct sg_block *block; (block = first_of(root, context));) {
        take_out(block);
        if (block->kind == SG_POOLED)
            lose(block);
        unmap(block);
    }
    sg_unlock(&tree_lock);
}

/* ---- charges */

CUresult sg_charge_plain(CUcontext context, uint64_t bytes) {
    struct sg_state state = sg_begin();
    struct sg_context *shared = sg_place_of(&state, context);
    bool fits = shared && sg_reserve_unpageable(&state, context->device, (double)bytes);
    if (fits)
        shared->plain_bytes += bytes;
    sg_commit(&state);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void sg_refund_plain(CUcontext context, uint64_t bytes) {
    struct sg_state state = sg_begin();
    struct sg_context *shared = sg_place_of(&state, context);
    if (shared)
        shared->plain_bytes -= shared->plain_bytes < bytes ? shared->plain_bytes : bytes;
    sg_commit(&state);
}

CUresult sg_charge_managed(CUcontext context, uint64_t bytes) {
    struct sg_state state = sg_begin();
    struct sg_context *shared = sg_place_of(&state, context);
    if (shared) {
        shared->managed_bytes += (double)bytes;
        shared->virgin_bytes += (double)bytes;
    }
    sg_commit(&state);
    return shared ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void sg_refund_managed(CUcontext context, uint64_t bytes) {
    struct sg_state state = sg_begin();
    if (sg_place_of(&state, context))
        sg_forget_managed(&state, context->index, (double)bytes);
    sg_commit(&state);
}

uint64_t sg_touch_block(struct sg_block *block, uint64_t end) {
    end = sg_round_up(end < block->bytes ? end : block->bytes, 512);
    sg_lock(&tree_lock); /* two threads that copy into one block */
    uint64_t before = block->touched;
    block->touched = end > before ? end : before;
    sg_unlock(&tree_lock);
    if (end <= before || sg_charge_managed(block->context, end - before) != CUDA_SUCCESS)
        return 0;
    return end - before;
}

void sg_send_managed_out(CUcontext context, uint64_t bytes) {
    struct sg_state state = sg_begin();
    if (sg_place_of(&state, context))
        sg_send_out(&state, context->index, (double)bytes);
    sg_commit(&state);
}
