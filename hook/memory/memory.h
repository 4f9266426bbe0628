/* What the container has allocated: the ledger, the cap, and this process's own allocations.
 *
 * Nobody is told or asked here: `must_tell`, and true of memory_return, memory_settle_claim and memory_settle_pools, say
 * that the daemon should hear of the GPU's use (turns_tell_use). */
#ifndef NVSHARE_MEMORY_H
#define NVSHARE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"
#include "memory/allocations.h"

#define MEMORY_MOST_BYTES (UINT64_C(1) << 52) /* more than any GPU addresses; a thousand of them do not overflow a sum */

/* What does not fit into 64 bits is more than any GPU has: it is refused as such. */
static inline uint64_t memory_product(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

struct memory_use {
    uint64_t pageable, unpageable;
};

/* From the welcome; `ledger` is the mapped file or NULL, `list` its GPUs in its order. */
void memory_adopt(void *ledger, const char *list, unsigned slot, uint64_t cap, bool is_plain);
void memory_after_fork(void);
/* A context on the GPU costs what no call tells. */
void memory_touch(int gpu);

/* What a claim comes to.  Where `wish` is not 0, the bytes are counted already, and the daemon must be asked whether the
 * container may grow to `wish`, or at least to `need`; memory_settle_claim is told its answer. */
struct claim {
    bool is_refused, must_tell;
    uint64_t wish, need;
};
/* Counts bytes about to be allocated; nothing is counted when they would be too many. */
struct claim memory_claim(int gpu, enum memory_kind kind, uint64_t bytes);
enum growth { GROWTH_REFUSED, GROWTH_OF_NEED, GROWTH_OF_WISH };
bool memory_settle_claim(int gpu, enum memory_kind kind, uint64_t bytes, enum growth growth);
bool memory_return(int gpu, enum memory_kind kind, uint64_t bytes);
void memory_expect_less(int gpu); /* the daemon was told of less: the next growth is asked for */

void memory_remember(const struct allocation *allocation);
/* Takes an allocation off the list, leaving its bytes counted; false when it is not there. */
bool memory_take(enum memory_space space, uint64_t name, struct allocation *taken);
/* The same, and its bytes are counted no longer; those of a pooled one are, as kept by its pool. */
struct forgotten {
    int gpu; /* -1: it is not there, or not ours to count */
    bool is_pooled, must_tell;
};
struct forgotten memory_forget(enum memory_space space, uint64_t name);
/* Changes the references of a handle; true when none is left, and `gone` is still to be returned. */
bool memory_refer(uint64_t handle, int change, struct allocation *gone);
/* Forget what belonged to a graph, or to contexts that are gone; a bit for each GPU whose use must be told. */
uint64_t memory_end_graph(CUgraph graph);
uint64_t memory_end_contexts(void);

/* `bytes` are about to come from a pool: how many of them are counted already, as kept. */
uint64_t memory_reuse(int gpu, uint64_t bytes);
void memory_keep_again(int gpu, uint64_t bytes, uint64_t reused); /* they did not come after all */
/* What all pools of the GPU hold, kept and in use. */
bool memory_settle_pools(int gpu, uint64_t reserved);
uint64_t memory_kept(int gpu);

bool memory_is_managed(int gpu);
uint64_t memory_cap(void);             /* UINT64_MAX: none */
uint64_t memory_container_use(int gpu); /* over all processes of the container */
struct memory_use memory_own_use(int gpu);
uint64_t memory_peak(void);

#endif
