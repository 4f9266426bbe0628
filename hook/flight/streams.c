/* The streams that were launched into: a record for each, under the flight lock. */
#include "flight/streams.h"

#include <stdlib.h>

#include "driver/contexts.h"

#define BUCKETS 256

static struct stream *table[BUCKETS];

static unsigned bucket_of(CUstream handle) { return (unsigned)((uintptr_t)handle >> 4) % BUCKETS; }

struct stream *stream_find(CUstream handle) {
    for (struct stream *stream = table[bucket_of(handle)]; stream; stream = stream->next)
        if (stream->handle == handle && stream->is_alive)
            return stream;
    return NULL;
}

bool stream_is(const struct stream *stream, CUstream handle, CUcontext context) {
    return stream->is_alive && stream->handle == handle && stream->context == context;
}

/* A record is never freed, only used again: segments may still point at it. */
struct stream *stream_of(CUstream handle, CUcontext context) {
    struct stream *dead = NULL, *stream = table[bucket_of(handle)];
    for (; stream; stream = stream->next) {
        if (stream_is(stream, handle, context))
            return stream;
        if (!stream->is_alive && !stream->launches)
            dead = stream;
    }
    stream = dead ? dead : calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    if (!dead) {
        stream->next = table[bucket_of(handle)];
        table[bucket_of(handle)] = stream;
    }
    stream->handle = handle;
    stream->context = context;
    stream->is_alive = true;
    return stream;
}

void streams_forget_ended(void) {
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct stream *stream = table[i]; stream; stream = stream->next)
            if (stream->is_alive && !context_is_alive(stream->context))
                stream->is_alive = false;
}
