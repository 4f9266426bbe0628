/* The processes of a container end a turn together. */
#ifndef NVSHARE_TOGETHER_H
#define NVSHARE_TOGETHER_H

#include <stdbool.h>
#include <stdint.h>

/* How far this process is with ending the turn of that counter: shown to the others. */
enum drain { NOT_DRAINING, FLYING, STUCK, EMPTY };
void together_show(int gpu, uint32_t counter, enum drain drain);

struct others {
    bool is_any_stuck, is_any_flying, is_any_unaware;
};
struct others together_look(int gpu, uint32_t counter);

#endif
