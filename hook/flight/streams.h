/* The streams that work was launched into: whether each still lives, and what it has in flight; and the contexts that are about
 * to end with theirs.  The caller of each function holds the lock of flight. */
#ifndef NVSHARE_STREAMS_H
#define NVSHARE_STREAMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

struct marker;

/* The record of a stream.  It is used again when its stream is dead and nothing of it is in flight.  It is written under the
 * flight lock; `is_alive` is set last.  Threads that have cached it read it without the lock, `is_alive` first. */
struct stream {
    _Atomic(CUstream) handle;
    _Atomic(CUcontext) context;
    atomic_bool is_alive;
    const void *owner; /* whose default stream it is, if each thread has one of its own; else NULL */
    struct stream *next;

    int gpu;
    bool is_listed;              /* in the list of the GPU's busy streams */
    struct stream *next_busy;
    struct marker *oldest, *youngest;
    unsigned marker_count;
    unsigned open_segments;      /* segments with a grant */
    uint64_t open_ns;            /* what was granted to them */
    uint32_t launches;           /* in flight behind markers: the driver blocks near 1,000 */
    bool is_full;                /* too many launches; ends when a quarter of them has ended */
    bool is_unmarked;            /* work without an event: the stream itself is asked */
    uint64_t last_end_ns;        /* when its last marker was found to have ended */
    uint64_t seen_busy_ns;       /* when it was last seen busy */
    const struct marker *waited_for; /* the head behind which a launch was let in out of impatience */

    /* Since the last look at the whole GPU. */
    bool was_busy;
    uint64_t done_ns;            /* the expected length of what has ended since … */
    uint64_t opened_ns;          /* … and when the first piece of it began, if nothing was in flight at the look */
    uint64_t head_counted_ns;    /* how much of the oldest piece was counted by then */
    uint64_t left_ns;            /* what was in flight then */
};

struct stream *stream_of(CUstream handle, CUcontext context, int gpu, const void *owner);
bool stream_is(const struct stream *stream, CUstream handle, CUcontext context); /* alive, and not used again for another */
void stream_end(CUstream handle);
void streams_forget_ended(void); /* forgets the streams of contexts that are gone */
void streams_forget_all(void);   /* in a forked child */

/* A call that may end a context.  While it is under way the driver is asked nothing of that context, which counts as alive. */
struct ending {
    CUdevice device;
    CUcontext primary; /* the context that the call may end, if the call names a device; else NULL */
    CUcontext context; /* the context that the call may end */
    struct ending *next;
};
void ending_begin(struct ending *ending);
void ending_finish(const struct ending *ending);
bool is_ending(CUcontext context);
bool outlives_endings(CUcontext context); /* it is alive, or a call that may end it is under way */

#endif
