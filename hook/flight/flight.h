/* What this process has in flight on each GPU: bounded, measured, and drained when the turn ends. */
#ifndef NVSHARE_FLIGHT_H
#define NVSHARE_FLIGHT_H

#include "gate/gate.h"

/* Called outside the gate with the turn held: waits until this piece of work may enter, and grants it.
 * False when the gate closed meanwhile. */
bool flight_admit(struct slot *slot, struct segment *segment, struct measured *measured);

/* With the gate closed and the slots clear: an event behind everything launched; then whether all of it has ended. */
void flight_flush(int gpu);
bool flight_is_empty(int gpu);
/* Something has been running for longer than it should: it may be waiting for a partner. */
bool flight_is_stuck(int gpu);

/* Changes whenever anything is launched on the GPU. */
uint64_t flight_activity(int gpu);
/* Nanoseconds of work on the GPU that were seen to end since the last call. */
uint64_t flight_take_busy(int gpu);
uint64_t flight_busy_at_the_end(int gpu);
uint64_t flight_overruns(void);

void flight_set_bound(unsigned milliseconds, unsigned gpu_count);

/* Under the lock: an event behind what the segment has launched, which is then used for something else. */
void flight_close(struct segment *segment);
void flight_mark_at_once(struct segment *segment); /* the same, without the lock */
/* Before a stream is destroyed: an event behind what is still in it. */
void flight_end_stream(CUstream stream);
void flight_end_thread(struct slot *slot);
void flight_forget_all(void); /* in a forked child */

/* Around the end of a context, which happens under the lock: nobody uses its events meanwhile, and they are forgotten. */
struct ending {
    CUdevice device;
    CUcontext primary; /* what the call may end, where it is of a device; else NULL */
};
struct ending ending_of_primary(CUdevice device);
struct ending ending_of_handle(const void *handle);
#define ENDING_OF(what) _Generic((what), CUdevice: ending_of_primary, default: ending_of_handle)(what)
void flight_after_end(const struct ending *ending); /* lets the lock go */

#endif
