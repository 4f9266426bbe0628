/* The streams that were launched into: a record for each, under the flight lock. */
#include "flight/streams.h"

#include <stdlib.h>

#include "driver/contexts.h"

#define BUCKETS 256

static struct stream *table[BUCKETS];
static struct ending *endings;

static unsigned bucket_of(CUstream handle) { return (unsigned)((uintptr_t)handle >> 4) % BUCKETS; }

bool stream_is(const struct stream *stream, CUstream handle, CUcontext context) {
    return stream->is_alive && stream->handle == handle && stream->context == context;
}

static bool is_used(const struct stream *stream) {
    return stream->is_alive || stream->is_listed || stream->open_segments;
}

/* A record is never freed, only used again: segments may still point at it. */
struct stream *stream_of(CUstream handle, CUcontext context, int gpu, const void *owner) {
    struct stream *dead = NULL, *stream = table[bucket_of(handle)];
    for (; stream; stream = stream->next) {
        if (stream_is(stream, handle, context) && stream->owner == owner)
            return stream;
        if (!is_used(stream))
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
    stream->owner = owner;
    stream->gpu = gpu;
    stream->is_full = stream->is_unmarked = stream->was_busy = false;
    stream->launches = 0;
    stream->open_ns = stream->last_end_ns = stream->done_ns = stream->head_counted_ns = 0;
    stream->waited_for = NULL;
    stream->is_alive = true;
    return stream;
}

void stream_end(CUstream handle) {
    for (struct stream *stream = table[bucket_of(handle)]; stream; stream = stream->next)
        if (stream->handle == handle && stream->is_alive)
            stream->is_alive = false;
}

void streams_forget_ended(void) {
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct stream *stream = table[i]; stream; stream = stream->next)
            if (stream->is_alive && !outlives_endings(stream->context))
                stream->is_alive = false;
}

/* ------------------------------------------------------------------------------------------------ contexts that end */

void ending_begin(struct ending *ending) {
    ending->next = endings;
    endings = ending;
}

void ending_finish(const struct ending *ending) {
    struct ending **at = &endings;
    while (*at != ending)
        at = &(*at)->next;
    *at = ending->next;
}

bool is_ending(CUcontext context) {
    const struct ending *ending = endings;
    while (ending && ending->context != context)
        ending = ending->next;
    return ending;
}

bool outlives_endings(CUcontext context) { return is_ending(context) || context_is_alive(context); }

/* The child has none of the parent's contexts; what pointed at the records is forgotten with them. */
void streams_forget_all(void) {
    for (unsigned i = 0; i < BUCKETS; i++)
        table[i] = NULL;
    endings = NULL;
}
