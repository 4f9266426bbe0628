/* Blocks: the memory that this process holds, as address ranges by their start, with their charge on the device. */
#ifndef SIMGPU_BLOCKS_H
#define SIMGPU_BLOCKS_H

#include "driver/base/objects.h"

#define SG_PAGE 4096ull

/* SG_IMPORTED: another process' memory, mapped here. */
enum sg_block_kind { SG_PLAIN, SG_MANAGED, SG_PINNED, SG_REGISTERED, SG_POOLED, SG_IMPORTED, SG_RESERVED };

struct sg_export;

struct sg_block {
    uint64_t start, bytes, charged;
    uint64_t touched; /* of a managed block: its first bytes that kernels or copies touch */
    enum sg_block_kind kind;
    CUcontext context; /* NULL for host memory that outlives it */
    uint32_t device;
    unsigned flags;
    uint64_t id;
    void *pool;
    struct sg_export *exported; /* the handle under which other processes open it */
    int exported_descriptor;
    bool sync_memops, of_graph;
    struct sg_block *left, *right; /* by address */
    uint32_t rank;                 /* random: keeps the tree flat */
};

/* Reserves address space and enters it as a block; nothing is charged. NULL when no address space is left. */
struct sg_block *sg_add_block(enum sg_block_kind kind, CUcontext context, uint64_t bytes, uint64_t alignment);
struct sg_block *sg_enter_block(enum sg_block_kind kind, CUcontext context, uint64_t start, uint64_t bytes);
/* The block that contains an address, or NULL. */
struct sg_block *sg_find_block(uint64_t address);
/* Removes a block; gives back its charge and its address space (but not the space of registered blocks). */
void sg_remove_block(struct sg_block *block);
/* Removes the blocks of a context that ends, without a refund. `lose` is called for each block of a pool. */
void sg_forget_blocks(CUcontext context, void (*lose)(const struct sg_block *block));

CUresult sg_charge_plain(CUcontext context, uint64_t bytes);
void sg_refund_plain(CUcontext context, uint64_t bytes);
/* Counts bytes that kernels touch from now on. */
CUresult sg_charge_managed(CUcontext context, uint64_t bytes);
void sg_refund_managed(CUcontext context, uint64_t bytes);
/* A copy touches a managed block up to here; returns how many bytes count from now on that did not before. */
uint64_t sg_touch_block(struct sg_block *block, uint64_t end);
void sg_send_managed_out(CUcontext context, uint64_t bytes);

static inline uint64_t sg_round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

static inline uint64_t sg_mapped_bytes(const struct sg_block *block) {
    return sg_round_up(block->bytes, SG_PAGE);
}

#endif
