/* The container's turns, as this process sees them: what the daemon said, what it must be answered. */
#ifndef NVSHARE_TURNS_H
#define NVSHARE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

bool turns_ready(void);               /* waits for the first welcome; false: the driver is not usable, and will say so */
bool turns_ready_soon(void);          /* for questions: waits 2 s at most, once a process; then false until there is a welcome */
void turns_tell_use(int gpu);         /* what is allocated there has changed by a step */
struct slot;
/* Waits until the gate is open.  False: it is shut, but this one launch is let through for a partner's sake; the slot is
 * taken already. */
bool turns_wait(int gpu, struct slot *slot);
void turns_flush(void);               /* an event behind everything launched, on each GPU; its gate is shut for a moment */
bool turns_reserve(int gpu, uint64_t bytes); /* may the container grow to that?  Waits for the answer */

void turns_after_fork(void);

struct turns_totals {
    uint64_t turns, neighbours, waited_ns, busy_ns;
};
struct turns_totals turns_totals(void); /* at the end: never waits long for a lock, the thread itself may hold it */

#endif
