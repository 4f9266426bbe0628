/* A hash table of allocations: open addressing, closed up again when one is removed, so that it never fills with graves.
 * Of two with the same name the older is found: no step here turns the order of entries around.
 *
 * Pure data; knows nothing of the driver or the ledger. */
#include "memory/allocations.h"

#include <stdlib.h>
#include <string.h>

static struct allocation *table;
static size_t size, used;

static size_t home_of(enum memory_space space, uint64_t name) {
    return (size_t)(((name ^ (uint64_t)space << 56) * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (size - 1);
}

static void place(const struct allocation *allocation) {
    size_t at = home_of(allocation->space, allocation->name);
    while (table[at].is_used)
        at = (at + 1) & (size - 1);
    table[at] = *allocation;
    table[at].is_used = true;
    used++;
}

static void grow(void) {
    struct allocation *before = table;
    size_t count = size;
    size_t doubled = count ? count * 2 : 1024;
    void *larger = NULL;
    if (posix_memalign(&larger, 64, doubled * sizeof *before))
        return;
    table = memset(larger, 0, doubled * sizeof *before);
    size = doubled;
    used = 0;
    size_t first = 0;
    while (first < count && before[first].is_used)
        first++; /* no run of entries crosses an empty place */
    for (size_t i = 0; i < count; i++) {
        const struct allocation *one = &before[(first + i) & (count - 1)];
        if (one->is_used)
            place(one);
    }
    free(before);
}

void allocations_add(const struct allocation *allocation) {
    if (used * 3 >= size * 2)
        grow();
    if (used + 1 < size) /* else there is no memory at all: it stays counted, and is never returned */
        place(allocation);
}

struct allocation *allocations_find(enum memory_space space, uint64_t name) {
    if (!size)
        return NULL;
    for (size_t at = home_of(space, name); table[at].is_used; at = (at + 1) & (size - 1))
        if (table[at].name == name && table[at].space == space)
            return &table[at];
    return NULL;
}

void allocations_remove(struct allocation *found) {
    size_t hole = (size_t)(found - table);
    for (size_t at = (hole + 1) & (size - 1); table[at].is_used; at = (at + 1) & (size - 1)) {
        size_t home = home_of(table[at].space, table[at].name);
        if (((at - home) & (size - 1)) < ((at - hole) & (size - 1)))
            continue; /* it would come before its home */
        table[hole] = table[at];
        hole = at;
    }
    table[hole].is_used = false;
    used--;
}

/* What closes up the hole was behind it, or had been looked at: nothing that was not comes to lie before it. */
bool allocations_remove_next(bool (*is_it)(const struct allocation *, void *), void *which, size_t *from, struct allocation *gone) {
    for (; *from < size; ++*from) {
        struct allocation *one = &table[*from];
        if (!one->is_used || !is_it(one, which))
            continue;
        *gone = *one;
        allocations_remove(one);
        return true;
    }
    return false;
}

void allocations_clear(void) {
    for (size_t at = 0; at < size; at++)
        table[at].is_used = false;
    used = 0;
}
