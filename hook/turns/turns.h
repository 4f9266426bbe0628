/* The turns of the container, as this process sees them: the messages of the daemon, and the answers to them. */
#ifndef NVSHARE_TURNS_H
#define NVSHARE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

bool turns_ready(void);               /* waits for the first welcome; false: refused, or the driver is not usable, and reports it */
/* The scheduler has refused this process, which was never welcomed: calls that need a turn or memory return an error.  At the
 * end of fruitless calls of turns_ready; it may be over when the next one asks. */
bool turns_are_refused(void);
bool turns_ready_soon(void);          /* for queries: waits at most 2 s, once in a process; then false until a welcome */
void turns_tell_use(int gpu);         /* the allocated memory on the GPU has changed by a step */
struct slot;
/* Waits until the gate is open.  False: it is shut, but this one launch is let through because a partner waits for it; the
 * slot is taken already. */
bool turns_wait(int gpu, struct slot *slot);
void turns_flush(void);               /* records an event behind all launched work, on each GPU; its gate is shut for a moment */
bool turns_reserve(int gpu, uint64_t bytes); /* asks whether the container may grow to that; waits for the answer */

void turns_after_fork(void);

struct turns_totals {
    uint64_t turns, neighbours, waited_ns, busy_ns;
};
struct turns_totals turns_totals(void); /* at exit: never waits long for a lock, since this thread itself may hold it */

#endif
