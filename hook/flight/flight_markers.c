/* Markers: events behind what was launched, recorded when a piece is used up, when a turn ends, when a stream ends.
 *
 * The rule: to mark never waits, since whoever marks holds the lock.  When there are many, the youngest marker of the same
 * stream moves behind the new piece; a stream without one gets one more.  May call capture, events and streams. */
#include <stdlib.h>

#include "driver/contexts.h"
#include "flight/capture.h"
#include "flight/events.h"
#include "flight/flight_state.h"
#include "flight/streams.h"

/* The stream in which an event shows the end of what the segment launched, whoever records it. */
static CUstream stream_to_mark(const struct segment *segment, bool is_own_thread) {
    return segment->handle == CU_STREAM_PER_THREAD && !is_own_thread ? CU_STREAM_LEGACY : segment->handle;
}

/* Records the event, or a spare one in place of NULL; NULL when that could not be done. */
static CUevent record(CUevent event, const struct segment *segment, bool is_own_thread) {
    CUstreamCaptureMode mode = capture_relax();
    bool was_pushed = context_push(segment->context);
    CUstream stream = stream_to_mark(segment, is_own_thread);
    if (capture_covers(stream))
        event = NULL;
    else if (!event)
        event = spare_event(segment->context);
    if (event && driver.cuEventRecord(event, stream) != CUDA_SUCCESS)
        event = NULL; /* and not given back: it may be of a context that is gone, and would fail the next one too */
    context_pop(was_pushed);
    capture_restore(mode);
    return event;
}

static void close_segment(struct segment *segment) {
    segment->granted_ns = segment->credit_ns = 0;
    segment->launches_granted = 0;
    atomic_store_explicit(&segment->launches_left, 0, memory_order_relaxed);
    segment->only = NULL;
}

static bool make_room(struct flight *flight) {
    if (flight->count < flight->room)
        return true;
    int room = flight->room ? flight->room * 2 : MOST_MARKERS;
    struct marker *markers = realloc(flight->markers, (size_t)room * sizeof *markers);
    if (!markers)
        return false;
    flight->markers = markers;
    flight->room = room;
    return true;
}

static void add_marker(struct flight *flight, const struct segment *segment, bool is_own_thread) {
    CUevent event = make_room(flight) ? record(NULL, segment, is_own_thread) : NULL;
    if (!event)
        return;
    flight->markers[flight->count++] = (struct marker){
        .event = event, .context = segment->context, .stream = segment->stream, .only = segment->only,
        .opened_ns = segment->opened_ns, .expected_ns = used_ns(segment), .launches = segment_launched(segment)};
    segment->stream->launches += segment_launched(segment);
}

/* What ends before the new piece does, in whichever thread it was launched; each thread's own stream is another. */
static struct marker *youngest_of_stream(const struct flight *flight, const struct segment *segment) {
    for (int i = flight->count - 1; i >= 0 && segment->handle != CU_STREAM_PER_THREAD; i--)
        if (flight->markers[i].stream == segment->stream)
            return &flight->markers[i];
    return NULL;
}

static bool move_marker(struct marker *marker, const struct segment *segment, bool is_own_thread) {
    if (!record(marker->event, segment, is_own_thread))
        return false;
    marker->expected_ns = sum_ns(marker->expected_ns, used_ns(segment));
    marker->only = NULL;
    marker->launches += segment_launched(segment);
    segment->stream->launches += segment_launched(segment);
    return true;
}

void mark(struct segment *segment, bool is_own_thread) {
    struct flight *flight = &flights[segment->gpu];
    uint32_t launched = segment_launched(segment);
    if (launched && stream_is(segment->stream, segment->handle, segment->context)) {
        struct marker *youngest = flight->count < MOST_MARKERS ? NULL : youngest_of_stream(flight, segment);
        if (!youngest || !move_marker(youngest, segment, is_own_thread))
            add_marker(flight, segment, is_own_thread);
    }
    flight->marked += launched;
    close_segment(segment);
}
