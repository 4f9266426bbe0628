/* The learned duration of each kind of work. */
#ifndef NVSHARE_MEASURED_H
#define NVSHARE_MEASURED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/lookup.h"

#define UNKNOWN_NS UINT64_MAX

/* The kind of a piece of work: function, grid and block; or kind and size.  Kinds differ in duration. */
struct key {
    uint64_t words[4];
};

struct shape {
    unsigned int grid_x, grid_y, grid_z, block_x, block_y, block_z;
};

/* The learned duration of a kind of work.  Threads read `expected_ns` without a lock; the lock of `measured` guards the rest. */
struct measured {
    struct key key;
    _Atomic uint64_t expected_ns;
    struct measured *function; /* the record of its function, in all shapes; NULL in that record itself */
    uint32_t samples;          /* how often it was timed; 0: `expected_ns` is a guess, or unknown */
    uint32_t asked;            /* how often measured_wants_timing was asked */
    uint64_t most_units;       /* of a function: the largest shape that was timed */
    struct measured *next;
};

/* The record of a kind, shared by all threads; NULL when there is no memory for it.  A new shape of a known function begins
 * with a guess. */
struct measured *measured_of(const struct key *key);
/* Learns the duration of one such piece of work.  `is_exact`: it was timed, or its beginning and end were seen. */
void measured_learn(struct measured *measured, uint64_t each_ns, bool is_exact);
/* Whether the next piece of this kind should be timed.  The callers of these two functions hold one lock of theirs. */
bool measured_wants_timing(struct measured *measured);

INLINE struct key kernel_key(uintptr_t function, const struct shape *shape) {
    return (struct key){{function, shape->grid_x | (uint64_t)shape->grid_y << 32,
                         shape->grid_z | (uint64_t)shape->block_x << 32,
                         shape->block_z | (uint64_t)shape->block_y << 32}};
}

/* Copies of about the same size share a record: there is one kind for each power of two. */
INLINE struct key plain_key(uint64_t what, uint64_t size) {
    return (struct key){{what, size ? 64 - (unsigned)__builtin_clzll(size) : 0, UINT64_MAX, 0}};
}

INLINE unsigned key_hash(const struct key *key) {
    uint64_t mixed = key->words[0] ^ key->words[1] * 3 ^ key->words[2] * 5 ^ key->words[3] * 7;
    return (unsigned)((mixed * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

INLINE bool same_key(const struct key *a, const struct key *b) {
    return !((a->words[0] ^ b->words[0]) | (a->words[1] ^ b->words[1]) | (a->words[2] ^ b->words[2]) |
             (a->words[3] ^ b->words[3]));
}

#endif
