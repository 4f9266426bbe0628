/* A hash table of allocations.  Not locked: memory.c does that. */
#ifndef NVSHARE_BOOKS_H
#define NVSHARE_BOOKS_H

#include "memory.h"

void books_add(const struct allocation *allocation);
struct allocation *books_find(enum memory_space space, uint64_t name);
void books_remove(struct allocation *found);
bool books_remove_first(bool (*is_it)(const struct allocation *, const void *), const void *which, struct allocation *gone);
void books_clear(void);

#endif
