/* Markers: events behind what was launched, recorded when a piece is used up, when a turn ends, when a stream ends.
 *
 * The rule: to mark never waits, since whoever marks holds the lock.  When there are many markers, the youngest marker of the
 * same stream moves behind the new piece; a stream without one gets one more.  Where no event can be recorded, the stream is
 * remembered as unmarked and is asked itself: nothing that was launched is ever forgotten. */
#include <stdlib.h>

#include "driver/contexts.h"
#include "flight/capture.h"
#include "flight/events.h"
#include "flight/flight_state.h"
#include "process/clock.h"

static struct marker *spare_markers;

static struct marker *take_marker(void) {
    struct marker *marker = spare_markers;
    if (!marker)
        return malloc(sizeof *marker);
    spare_markers = marker->next;
    return marker;
}

static void give_back_marker(struct marker *marker) {
    marker->next = spare_markers;
    spare_markers = marker;
}

/* The stream in which an event shows the end of what the segment launched, whoever records it. */
static CUstream stream_to_mark(const struct segment *segment, bool is_own_thread) {
    return segment->handle == CU_STREAM_PER_THREAD && !is_own_thread ? CU_STREAM_LEGACY : segment->handle;
}

/* Records the event, or a spare one in place of NULL; NULL when that could not be done. */
static CUevent record(CUevent event, const struct segment *segment, bool is_own_thread, bool is_timed) {
#ifdef NVSHARE_EVENTS_FAIL
    return NULL; /* for a test: nothing must be lost then */
#endif
    if (is_ending(segment->context))
        return NULL;
    CUstreamCaptureMode mode = capture_relax();
    bool was_pushed = context_push(segment->context);
    CUstream stream = stream_to_mark(segment, is_own_thread);
    if (capture_covers(stream))
        event = NULL;
    else if (!event)
        event = spare_event(segment->context, is_timed);
    if (event && driver.cuEventRecord(event, stream) != CUDA_SUCCESS)
        event = NULL; /* and not given back: it may be of a context that is gone, and would fail the next one too */
    context_pop(was_pushed);
    capture_restore(mode);
    return event;
}

/* ------------------------------------------------------------------------------------------------ busy streams */

void list_stream(struct stream *stream) {
    struct flight *flight = &flights[stream->gpu];
    if (stream->is_listed)
        return;
    stream->is_listed = true;
    stream->next_busy = flight->busy;
    flight->busy = stream;
    flight->busy_count++;
}

void unlist_idle(struct stream *stream) {
    struct flight *flight = &flights[stream->gpu];
    if (!stream->is_listed || stream->oldest || stream->open_segments || stream->is_unmarked || stream->done_ns || stream->was_busy)
        return;
    struct stream **at = &flight->busy;
    while (*at != stream)
        at = &(*at)->next_busy;
    *at = stream->next_busy;
    stream->is_listed = false;
    flight->busy_count--;
}

/* ------------------------------------------------------------------------------------------------ segments */

static uint64_t counted_ns(const struct segment *segment) { return segment->granted_ns == UNKNOWN_NS ? 0 : segment->granted_ns; }

static void close_segment(struct segment *segment) {
    if (segment->is_open) {
        segment->stream->open_segments--;
        segment->stream->open_ns -= counted_ns(segment);
    }
    if (segment->began)
        event_give_back(segment->began, segment->context, true);
    segment->began = NULL;
    segment->is_open = false;
    segment->granted_ns = segment->credit_ns = 0;
    segment->launches_granted = 0;
    atomic_store_explicit(&segment->launches_left, 0, memory_order_relaxed);
    segment->only = NULL;
}

/* On top of what the segment has launched without a marker, if there is any. */
void open_segment(struct segment *segment, uint64_t piece_ns, uint32_t launches, uint64_t now) {
    uint32_t before = segment_launched(segment);
    if (segment->is_open)
        segment->stream->open_ns -= counted_ns(segment);
    else
        segment->stream->open_segments++;
    segment->is_open = true;
    segment->granted_ns = sum_ns(used_ns(segment), piece_ns);
    segment->credit_ns = piece_ns;
    segment->launches_granted = before + launches;
    atomic_store_explicit(&segment->launches_left, launches, memory_order_relaxed);
    segment->opened_ns = before ? segment->opened_ns : now;
    segment->stream->open_ns += counted_ns(segment);
    list_stream(segment->stream);
}

bool begin_timing(struct segment *segment) {
    segment->began = record(NULL, segment, true, true);
    return segment->began != NULL;
}

/* ------------------------------------------------------------------------------------------------ markers */

static void append(struct stream *stream, struct marker *marker) {
    if (stream->oldest)
        stream->youngest->next = marker;
    else
        stream->oldest = marker;
    stream->youngest = marker;
    stream->marker_count++;
    flights[stream->gpu].marker_count++;
}

void drop_marker(struct stream *stream) {
    struct marker *marker = stream->oldest;
    stream->oldest = marker->next;
    stream->launches -= marker->launches;
    stream->marker_count--;
    flights[stream->gpu].marker_count--;
    if (stream->waited_for == marker)
        stream->waited_for = NULL;
    give_back_marker(marker);
}

static bool add_marker(struct segment *segment, bool is_own_thread) {
    struct stream *stream = segment->stream;
    struct marker *marker = take_marker();
    if (!marker)
        return false;
    CUevent event = record(NULL, segment, is_own_thread, segment->began != NULL);
    if (!event) {
        give_back_marker(marker);
        return false;
    }
    *marker = (struct marker){.event = event, .began = segment->began, .context = segment->context, .only = segment->only,
                              .opened_ns = segment->opened_ns, .marked_ns = now_ns(), .expected_ns = used_ns(segment),
                              .launches = segment_launched(segment), .was_behind = stream->oldest != NULL};
    segment->began = NULL;
    append(stream, marker);
    return true;
}

static bool move_marker(struct marker *marker, const struct segment *segment, bool is_own_thread) {
    if (!record(marker->event, segment, is_own_thread, marker->began != NULL))
        return false;
    if (marker->began)
        event_give_back(marker->began, marker->context, true);
    marker->began = NULL;
    marker->marked_ns = now_ns();
    marker->expected_ns = sum_ns(expected_of_marker(marker), used_ns(segment));
    marker->only = NULL;
    marker->launches += segment_launched(segment);
    return true;
}

static void mark_launched(struct segment *segment, bool is_own_thread) {
    struct stream *stream = segment->stream;
    struct marker *youngest = flights[segment->gpu].marker_count < MOST_MARKERS || !stream->oldest ? NULL : stream->youngest;
    if ((youngest && !youngest->began && move_marker(youngest, segment, is_own_thread)) || add_marker(segment, is_own_thread))
        stream->launches += segment_launched(segment);
    else
        stream->is_unmarked = true;
    list_stream(stream);
}

void mark(struct segment *segment, bool is_own_thread) {
    uint32_t launched = segment_launched(segment);
    if (launched && stream_is(segment->stream, segment->handle, segment->context))
        mark_launched(segment, is_own_thread);
    flights[segment->gpu].marked += launched;
    close_segment(segment);
    if (segment->stream)
        unlist_idle(segment->stream);
}
