/* Which GPU and context a stream belongs to, and whether it still lives. */
#ifndef NVSHARE_STREAMS_H
#define NVSHARE_STREAMS_H

#include "gate/gate.h"

/* A record is used again when its stream is dead and nothing of it in flight.  Written under the flight lock, `is_alive` last
 * when it comes to life; threads that cached it look without the lock, at `is_alive` first. */
struct stream {
    _Atomic(CUstream) handle;
    _Atomic(CUcontext) context;
    atomic_bool is_alive;
    uint32_t launches; /* granted or in flight: the driver blocks near 1,000 */
    struct stream *next;
};

/* The context of a stream, or the current one; NULL without any. */
CUcontext context_of(CUstream stream);
/* The GPU's place in `gpus` and the context of a stream; -1 for a GPU that is not ours, -2 without any context. */
int locate(CUstream stream, CUcontext *context);
/* The GPU of the current context, as locate. */
int locate_current(void);
int locate_device(CUdevice device);

/* Under the flight lock. */
struct stream *stream_of(CUstream handle, CUcontext context);
struct stream *stream_find(CUstream handle);
bool stream_is(const struct stream *stream, CUstream handle, CUcontext context); /* alive, and not used again for another */
void streams_forget_ended(void); /* those of contexts that are gone */

/* Makes the context current for the calls between; true when it had to. */
bool context_push(CUcontext context);
void context_pop(bool was_pushed);
bool context_is_alive(CUcontext context);
/* The same for many questions at one moment: each context is asked about once, as long as there are not too many. */
struct asked_contexts {
    CUcontext contexts[16];
    bool are_alive[16];
    unsigned count;
};
bool context_is_alive_still(struct asked_contexts *asked, CUcontext context);
bool primary_is_active(CUdevice device);
void context_set_gone(CUcontext context); /* from now on this thread takes it for one that has ended; NULL: none */

#endif
