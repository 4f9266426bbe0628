/* The drain barrier: the processes of a container end a turn together. */
#ifndef NVSHARE_DRAIN_BARRIER_H
#define NVSHARE_DRAIN_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

/* How far this process has ended the turn with that counter.  The other processes see it. */
enum drain { NOT_DRAINING, FLYING, STUCK, EMPTY };
void barrier_show(int gpu, uint32_t counter, enum drain drain);

struct others {
    bool is_any_stuck, is_any_flying, is_any_unaware;
};
struct others barrier_look(int gpu, uint32_t counter);

#endif
