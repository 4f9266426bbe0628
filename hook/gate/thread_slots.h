/* The slots of all threads. */
#ifndef NVSHARE_THREAD_SLOTS_H
#define NVSHARE_THREAD_SLOTS_H

#include "gate/gate.h"

extern __thread struct slot *own_slot;
extern struct slot *_Atomic all_slots;
#define FOR_EACH_SLOT(slot) for (struct slot *slot = atomic_load(&all_slots); slot; slot = slot->next)
#define FOR_EACH_SEGMENT(slot, segment)                                                                                 \
    for (struct segment *segment = (slot)->segments; segment < (slot)->segments + SEGMENTS; segment++)

struct slot *slot_take(void);           /* for this thread; NULL when there is no memory for one */
void slot_give_back(struct slot *slot); /* the thread has ended */
bool slots_clear(int gpu);              /* true when no thread is in a driver call for the GPU */
bool slots_clear_soon(int gpu);
bool slots_clear_within(int gpu, unsigned milliseconds);
void slots_after_fork(void);

#endif
