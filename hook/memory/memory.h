/* What the container has allocated: the ledger, the cap, and this process's own allocations. */
#ifndef NVSHARE_MEMORY_H
#define NVSHARE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"

#define MEMORY_MOST_BYTES (UINT64_C(1) << 52) /* more than any GPU addresses; a thousand of them do not overflow a sum */

enum memory_kind { PAGEABLE, UNPAGEABLE };
/* What names an allocation: numbers of different spaces may be equal. */
enum memory_space { POINTER, POOL_HANDLE, MAPPING, ARRAY, MIPMAP };

enum memory_owner { OF_CONTEXT, OF_GRAPH, OF_HANDLE };

/* 32 bytes: two a cache line, none across two. */
struct allocation {
    uint64_t name, bytes;
    union {
        CUcontext context;
        CUgraph graph;
        uint64_t handle; /* of a mapping */
    };
    int references;
    signed char gpu;
    unsigned char kind : 1, space : 3, owner : 2, is_used : 1, is_pooled : 1;
};

/* A driver may call its own exported functions, and so come back to us: what is inside one call is counted once. */
extern __thread int inside_driver;
#define INSIDE(call)                                                                                                    \
    ({                                                                                                                  \
        inside_driver++;                                                                                                \
        CUresult inside = (call);                                                                                       \
        inside_driver--;                                                                                                \
        inside;                                                                                                         \
    })

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

/* Counts bytes about to be allocated; CUDA_ERROR_OUT_OF_MEMORY and nothing counted when they would be too many. */
CUresult memory_claim(int gpu, enum memory_kind kind, uint64_t bytes);
void memory_return(int gpu, enum memory_kind kind, uint64_t bytes);
void memory_expect_less(int gpu); /* the daemon was told of less: the next growth is asked for */
void memory_remember(const struct allocation *allocation);
/* Takes an allocation out of the books, leaving its bytes counted; false when it is not there. */
bool memory_take(enum memory_space space, uint64_t name, struct allocation *taken);
/* The same, and its bytes are counted no longer; of a pooled one they are, as kept by its pool: returns its GPU, else -1. */
int memory_forget(enum memory_space space, uint64_t name);
/* Changes the references of a handle; when none is left its bytes are returned. */
void memory_refer(uint64_t handle, int change);
void memory_end_graph(CUgraph graph);
void memory_end_contexts(void); /* forgets what belonged to contexts that are gone */

/* A word a GPU of the own slot that the container's other processes read: how far a drain is (together.c). */
void memory_show_drain(int gpu, uint64_t word);
unsigned memory_drains(int gpu, uint64_t *words, unsigned most); /* the others' words; returns how many there are */

/* `bytes` are about to come from a pool: how many of them are counted already, as kept. */
uint64_t memory_reuse(int gpu, uint64_t bytes);
void memory_keep_again(int gpu, uint64_t bytes, uint64_t reused); /* they did not come after all */
/* What all pools of the GPU hold, kept and in use; true when the daemon should be told. */
bool memory_settle_pools(int gpu, uint64_t reserved);
uint64_t memory_kept(int gpu);

bool memory_is_managed(int gpu);
uint64_t memory_cap(void);             /* UINT64_MAX: none */
uint64_t memory_container_use(int gpu); /* over all processes of the container */
struct memory_use memory_own_use(int gpu);
uint64_t memory_peak(void);

#endif
