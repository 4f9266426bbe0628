/* A hash table of allocations, by name.  Not locked: memory.c does that. */
#ifndef NVSHARE_ALLOCATIONS_H
#define NVSHARE_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"

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

void allocations_add(const struct allocation *allocation);
struct allocation *allocations_find(enum memory_space space, uint64_t name);
void allocations_remove(struct allocation *found);
/* The next from `*from` on that is it; all are found by calling again with the same `from`, 0 at first. */
bool allocations_remove_next(bool (*is_it)(const struct allocation *, void *), void *which, size_t *from, struct allocation *gone);
void allocations_clear(void);

#endif
