/* A transaction: it works on the state of all devices, brought up to now.
 *
 * The rule: other processes see no change before sg_commit. */
#ifndef SIMGPU_TRANSACTION_H
#define SIMGPU_TRANSACTION_H

#include "shared/devices/state.h"

struct sg_state sg_begin(void);
/* False within a transaction of this process: a signal handler may have called exit in the middle of it. Then the other
 * processes see our death and take over the lock. */
bool sg_begin_at_exit(struct sg_state *state);
void sg_commit(struct sg_state *state);

#endif
