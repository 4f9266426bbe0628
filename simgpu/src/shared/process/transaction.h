/* A transaction: the state of all devices, brought up to now. Nothing is seen by others before sg_commit. */
#ifndef SIMGPU_TRANSACTION_H
#define SIMGPU_TRANSACTION_H

#include "shared/devices/state.h"

struct sg_state sg_begin(void);
/* False within a transaction of this process: exit may have been called by a signal's handler in the middle of it. Then
 * the others see our death, and rob the lock. */
bool sg_begin_at_exit(struct sg_state *state);
void sg_commit(struct sg_state *state);

#endif
