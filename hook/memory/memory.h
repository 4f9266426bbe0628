/* The memory of the container: the ledger, the cap, and the allocations of this process.
 *
 * The rule: nothing here speaks to the daemon.  `must_tell`, and a result of true from memory_return, memory_settle_claim
 * and memory_settle_pools, mean that the caller must tell the daemon the use of the GPU (turns_tell_use). */
#ifndef NVSHARE_MEMORY_H
#define NVSHARE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"
#include "memory/allocations.h"

#define MEMORY_MOST_BYTES (UINT64_C(1) << 52) /* more than any GPU addresses; a thousand of them do not overflow a sum */

/* A product that does not fit into 64 bits is more than any GPU has, and is refused for that. */
static inline uint64_t memory_product(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

struct memory_use {
    uint64_t pageable, unpageable;
};

/* Takes over the values of a welcome; `ledger` is the mapped file or NULL, `list` names its GPUs in its order. */
void memory_adopt(void *ledger, const char *list, unsigned slot, uint64_t cap, bool is_plain);
void memory_after_fork(void);
/* Counts a context on the GPU: it takes memory that no call reports. */
void memory_touch(int gpu);

/* The result of a claim.  When `wish` is not 0, the bytes are counted already, and the daemon must be asked whether the
 * container may grow to `wish`, or at least to `need`.  memory_settle_claim takes its answer. */
struct claim {
    bool is_refused, must_tell;
    uint64_t wish, need;
};
/* Counts bytes that are about to be allocated; counts nothing when they would be too many. */
struct claim memory_claim(int gpu, enum memory_kind kind, uint64_t bytes);
enum growth { GROWTH_REFUSED, GROWTH_OF_NEED, GROWTH_OF_WISH };
bool memory_settle_claim(int gpu, enum memory_kind kind, uint64_t bytes, enum growth growth);
bool memory_return(int gpu, enum memory_kind kind, uint64_t bytes);
void memory_expect_less(int gpu); /* the daemon was told of less use: the next growth must be asked for */

void memory_remember(const struct allocation *allocation);
/* Takes an allocation off the list, leaving its bytes counted; false when it is not there. */
bool memory_take(enum memory_space space, uint64_t name, struct allocation *taken);
bool memory_find_kind(enum memory_space space, uint64_t name, enum memory_kind *kind); /* false: it is not there */
/* The same, and its bytes are not counted any more.  The bytes of a pooled one still count, as kept by its pool. */
struct forgotten {
    int gpu; /* -1: it is not there, or its bytes are not counted here */
    bool is_pooled, must_tell;
};
struct forgotten memory_forget(enum memory_space space, uint64_t name);
/* Changes the references of a handle; true when none is left, and `gone` is still to be returned. */
bool memory_refer(uint64_t handle, int change, struct allocation *gone);
/* Forget the allocations of a graph, or of contexts that are gone; returns a bit for each GPU whose use must be told. */
uint64_t memory_end_graph(CUgraph graph);
uint64_t memory_end_contexts(void);

/* `bytes` are about to come from a pool; returns how many of them are counted already, as kept. */
uint64_t memory_reuse(int gpu, uint64_t bytes);
void memory_keep_again(int gpu, uint64_t bytes, uint64_t reused); /* the pool did not give them */
/* `reserved`: the bytes that all pools of the GPU hold, kept and in use. */
bool memory_settle_pools(int gpu, uint64_t reserved);
uint64_t memory_kept(int gpu);

bool memory_is_managed(int gpu);
uint64_t memory_cap(void);             /* UINT64_MAX: none */
uint64_t memory_container_use(int gpu); /* over all processes of the container */
/* The bytes that the container may still allocate on a card of that size.  Without a cap, contexts take part of the card. */
uint64_t memory_left(int gpu, uint64_t card);
struct memory_use memory_own_use(int gpu);
uint64_t memory_peak(void);

#endif
