/* A hash table of allocations.  Not locked: memory.c does that. */
#ifndef NVSHARE_BOOKS_H
#define NVSHARE_BOOKS_H

#include "memory/memory.h"

void books_add(const struct allocation *allocation);
struct allocation *books_find(enum memory_space space, uint64_t name);
void books_remove(struct allocation *found);
/* The next from `*from` on that is it; all are found by calling again with the same `from`, 0 at first. */
bool books_remove_next(bool (*is_it)(const struct allocation *, void *), void *which, size_t *from, struct allocation *gone);
void books_clear(void);

#endif
