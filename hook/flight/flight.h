/* The work that this process has in flight on each GPU.
 *
 * The rule: it is bounded, measured, and drained when the turn ends. */
#ifndef NVSHARE_FLIGHT_H
#define NVSHARE_FLIGHT_H

#include "flight/streams.h"
#include "gate/gate.h"

/* Waits until this piece of work may enter, and grants it.  Called outside the gate, with the turn held.
 * False when the gate has closed meanwhile. */
bool flight_admit(struct slot *slot, struct segment *segment, struct measured *measured);

/* Waits until half of the stream's bound is free, or the gate has closed; then the thread's launches enter without a pause for
 * a while. */
void flight_make_room(struct slot *slot, struct segment *segment);

/* flight_flush records an event behind all launched work; flight_is_empty says whether all of it has ended.  Both need a
 * closed gate and clear slots. */
void flight_flush(int gpu);
bool flight_is_empty(int gpu);
bool flight_has_unmarked(int gpu); /* something was launched behind which there is no event yet */
/* True when work has been running for longer than expected: it may be waiting for a partner. */
bool flight_is_stuck(int gpu);

/* A value that changes whenever work is launched on the GPU. */
uint64_t flight_activity(int gpu);
/* Nanoseconds in which this process had work in flight on the GPU, and the longest launch that was learned there. */
struct flight_time {
    uint64_t busy_ns, longest_ns;
};
struct flight_time flight_look(int gpu); /* asks what has ended by now */
/* The nanoseconds in flight since the last call. */
uint64_t flight_take_busy(int gpu);
uint64_t flight_busy_at_the_end(int gpu);
uint64_t flight_overruns(void);

/* How much may be in flight: while another container waits, and at most while the program is alone. */
void flight_set_bound(unsigned milliseconds, unsigned alone_milliseconds, unsigned gpu_count);
/* Whether another container waits for the GPU now.  `quiet_ns`: for how long none has waited, or UNKNOWN_NS. */
void flight_set_waited(int gpu, bool is_waited, uint64_t quiet_ns);

/* Records an event behind the work of the segment, which is used for other work then.  Under the lock. */
void flight_close(struct segment *segment);
void flight_mark_at_once(struct segment *segment); /* the same, without the lock */
/* Records an event behind the work that is still in a stream, before the stream is destroyed. */
void flight_end_stream(CUstream stream);
void flight_end_thread(struct slot *slot);
void flight_forget_all(void); /* in a forked child */

/* For the end of a context.  The driver may wait there for the work in flight, so no lock is held meanwhile; between
 * flight_before_end and flight_after_end no thread asks or uses the events of that context, and its work counts as in flight.
 * Then what has ended is forgotten. */
struct ending ending_of_primary(CUdevice device);
struct ending ending_of_handle(const void *handle);
#define ENDING_OF(what) _Generic((what), CUdevice: ending_of_primary, default: ending_of_handle)(what)
void flight_before_end(struct ending *ending);
void flight_after_end(struct ending *ending);

#endif
