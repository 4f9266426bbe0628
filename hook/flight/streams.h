/* The streams that work was launched into, and whether each still lives. */
#ifndef NVSHARE_STREAMS_H
#define NVSHARE_STREAMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

/* The record of a stream.  It is used again when its stream is dead and nothing of it is in flight.  It is written under the
 * flight lock; `is_alive` is set last.  Threads that have cached it read it without the lock, `is_alive` first. */
struct stream {
    _Atomic(CUstream) handle;
    _Atomic(CUcontext) context;
    atomic_bool is_alive;
    uint32_t launches; /* granted or in flight: the driver blocks near 1,000 */
    struct stream *next;
};

/* The caller holds the flight lock. */
struct stream *stream_of(CUstream handle, CUcontext context);
struct stream *stream_find(CUstream handle);
bool stream_is(const struct stream *stream, CUstream handle, CUcontext context); /* alive, and not used again for another */
void streams_forget_ended(void); /* forgets the streams of contexts that are gone */

#endif
