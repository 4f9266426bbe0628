/* Counts what locks this thread holds, by rank, in builds that check their order. */
#include "locks.h"

#ifdef SIMGPU_LOCK_RANKS

#include <stdio.h>
#include <stdlib.h>

static __thread unsigned held[SG_RANKS];

void sg_check_rank(enum sg_rank rank) {
    unsigned from = rank == SG_RANK_QUEUE ? rank + 1u : rank;
    for (unsigned other = from; other < SG_RANKS; other++) {
        if (!held[other])
            continue;
        fprintf(stderr, "simgpu: a lock of rank %u is taken while one of rank %u is held; locks.h has the order\n",
                (unsigned)rank, other);
        abort();
    }
}

void sg_note_lock(enum sg_rank rank) {
    held[rank]++;
}

void sg_note_unlock(enum sg_rank rank) {
    held[rank]--;
}

#endif
