/* A hash table of allocations, by name.
 *
 * The rule: it has no lock of its own; the caller holds the lock of memory. */
#ifndef NVSHARE_ALLOCATIONS_H
#define NVSHARE_ALLOCATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"

/* OWN_MANAGED: managed memory that the program itself asked for.  It can page, and only a cap bounds it. */
enum memory_kind { PAGEABLE, UNPAGEABLE, OWN_MANAGED };
/* The space of an allocation's name: names of different spaces may be equal numbers. */
enum memory_space { POINTER, POOL_HANDLE, MAPPING, ARRAY, MIPMAP };

enum memory_owner { OF_CONTEXT, OF_GRAPH, OF_HANDLE };

/* It has 32 bytes: two fit into a cache line, and none lies across two lines. */
struct allocation {
    uint64_t name, bytes;
    union {
        CUcontext context;
        CUgraph graph;
        uint64_t handle; /* of a mapping */
    };
    int references;
    signed char gpu;
    unsigned short kind : 2, space : 3, owner : 2, is_used : 1, is_pooled : 1;
};

void allocations_add(const struct allocation *allocation);
struct allocation *allocations_find(enum memory_space space, uint64_t name);
void allocations_remove(struct allocation *found);
/* Removes the next allocation from `*from` on for which `is_it` is true.  To find all, call it again with the same `from`,
 * which is 0 at first. */
bool allocations_remove_next(bool (*is_it)(const struct allocation *, void *), void *which, size_t *from, struct allocation *gone);
void allocations_clear(void);

#endif
