/* What has ended, how long it took, and how long anything was in flight.
 *
 * The rule: within a stream work ends in order, so only the oldest marker of a stream is asked.  Time in flight is the union
 * over the streams: what a GPU was busy for between two looks is that of its busiest stream, and never more than the time
 * that passed.  Lengths are learned from timed pieces: one launch between two events, so that neither a host that is late nor
 * the other work of a mixed piece is counted. */
#include "driver/contexts.h"
#include "driver/lookup.h"
#include "flight/capture.h"
#include "flight/events.h"
#include "flight/flight.h"
#include "flight/flight_state.h"
#include "gate/thread_slots.h"
#include "process/clock.h"
#include "process/lock_order.h"

#define SLICES_NS (8 * MS) /* of neighbours side by side, in the middle of a piece */

struct flight flights[MOST_GPUS];
_Atomic uint64_t overruns;

uint64_t flight_overruns(void) { return overruns; }

uint64_t expected_of_marker(const struct marker *marker) {
    if (!marker->only)
        return marker->expected_ns;
    uint64_t each = atomic_load_explicit(&marker->only->expected_ns, memory_order_relaxed);
    return each == UNKNOWN_NS ? marker->expected_ns : each * marker->launches;
}

/* ------------------------------------------------------------------------------------------------ asking */

/* No context: it is gone, and its work has ended as well. */
static bool is_not_ready(CUcontext context, CUevent event, CUstream stream) {
    bool was_pushed = context_push(context);
    CUresult result = event ? driver.cuEventQuery(event) : driver.cuStreamQuery(stream);
    context_pop(was_pushed);
    return result == CUDA_ERROR_NOT_READY;
}

/* Work without an event: the stream is asked, but never while a capture forbids it.  Another thread's own default stream is
 * asked through the legacy one. */
static bool is_unmarked_still(const struct stream *stream) {
    CUstream handle = stream->owner ? CU_STREAM_LEGACY : stream->handle;
    if (!DRIVER_HAS(cuStreamQuery) || !stream->is_alive)
        return false;
    return capture_covers(handle) || is_not_ready(stream->context, NULL, handle);
}

/* ------------------------------------------------------------------------------------------------ learning */

static void remember(struct flight *flight, struct measured *kind, uint64_t each_ns, bool is_exact) {
    measured_learn(kind, each_ns, is_exact);
    flight->longest_ns = later(flight->longest_ns, each_ns);
}

/* The time between its two events.  Where nothing was in flight before it, the first event came before the work by a part of
 * what the host took to launch it, and the time is exact only if that was short. */
static bool learn_timed(struct flight *flight, const struct marker *marker) {
    float milliseconds = 0;
    bool was_pushed = context_push(marker->context);
    CUresult result = driver.cuEventElapsedTime(&milliseconds, marker->began, marker->event);
    context_pop(was_pushed);
    if (result != CUDA_SUCCESS || !marker->only || marker->launches != 1)
        return false;
    uint64_t took = (uint64_t)((double)milliseconds * 1e6), late = marker->was_behind ? 0 : marker->marked_ns - marker->opened_ns;
    remember(flight, marker->only, late < took / 2 ? took - late / 3 : took, late <= took / 64);
    return true;
}

/* It was seen to run for far longer than expected after all of it had been launched: no late host explains that, and no
 * neighbour's slices do. */
static void learn_overrun(struct flight *flight, const struct stream *stream, const struct marker *marker) {
    uint64_t ran = less_ns(stream->seen_busy_ns, later(marker->marked_ns, stream->last_end_ns));
    if (marker->expected_ns == UNKNOWN_NS || ran <= 2 * marker->expected_ns + SLICES_NS)
        return;
    overruns++;
    flight->wary = WARY_PIECES;
    if (marker->only)
        remember(flight, marker->only, ran / marker->launches, true);
}

static void settle(struct stream *stream, uint64_t now) {
    struct flight *flight = &flights[stream->gpu];
    struct marker *marker = stream->oldest;
    if (!marker->began || !learn_timed(flight, marker))
        learn_overrun(flight, stream, marker);
    if (!stream->was_busy && !stream->done_ns)
        stream->opened_ns = marker->opened_ns;
    uint64_t expected = expected_of_marker(marker);
    stream->done_ns = sum_ns(stream->done_ns, less_ns(later(expected, 1), stream->head_counted_ns));
    stream->head_counted_ns = 0;
    stream->last_end_ns = now;
    if (marker->began)
        event_give_back(marker->began, marker->context, true);
    event_give_back(marker->event, marker->context, marker->began != NULL);
    drop_marker(stream);
}

void collect(struct stream *stream, uint64_t now) {
    if (is_ending(stream->context))
        return;
    CUstreamCaptureMode mode = capture_relax();
    while (stream->oldest && !is_not_ready(stream->oldest->context, stream->oldest->event, NULL))
        settle(stream, now);
    if (stream->oldest)
        stream->seen_busy_ns = now;
    else if (stream->is_unmarked && !is_unmarked_still(stream))
        stream->is_unmarked = false;
    capture_restore(mode);
}

bool is_overdue(const struct stream *stream, uint64_t now) {
    const struct marker *head = stream->oldest;
    uint64_t expected = head ? expected_of_marker(head) : UNKNOWN_NS;
    return expected != UNKNOWN_NS && less_ns(now, later(head->marked_ns, stream->last_end_ns)) > expected + expected / 4 + MS / 2;
}

/* ------------------------------------------------------------------------------------------------ time in flight */

static uint64_t remaining_of_all(const struct stream *stream) {
    uint64_t sum = 0;
    for (const struct marker *marker = stream->oldest; marker; marker = marker->next)
        sum = sum_ns(sum, expected_of_marker(marker));
    return less_ns(sum, stream->head_counted_ns);
}

/* How far the oldest piece has come since the last look, in the time that what has ended since then left to it. */
static uint64_t progress_ns(const struct stream *stream, uint64_t looked, uint64_t now) {
    const struct marker *head = stream->oldest;
    uint64_t most = less_ns(now - looked, stream->done_ns);
    if (!head || is_overdue(stream, now))
        return most;
    uint64_t expected = less_ns(expected_of_marker(head), stream->done_ns ? 0 : stream->head_counted_ns);
    return sooner(sooner(most, less_ns(now, later(head->opened_ns, looked))), expected);
}

/* For how long the stream was busy since the last look.  What was in flight then and would have lasted until now shows that
 * it was busy all the time; otherwise what ended since then is known by its learned length. */
static uint64_t busy_part(struct stream *stream, uint64_t looked, uint64_t now) {
    bool is_busy = stream->oldest || stream->is_unmarked;
    uint64_t window = now - looked, done = stream->done_ns, part;
    if (stream->was_busy && is_busy && stream->left_ns >= window)
        part = window;
    else {
        uint64_t first = stream->was_busy ? looked : done ? later(looked, stream->opened_ns) : looked;
        part = sooner(now - first, sum_ns(done, is_busy ? progress_ns(stream, looked, now) : 0));
    }
    stream->head_counted_ns = is_busy ? (done ? 0 : stream->head_counted_ns) + less_ns(part, done) : 0;
    stream->done_ns = 0;
    stream->was_busy = is_busy;
    stream->left_ns = remaining_of_all(stream);
    return part;
}

void look(struct flight *flight, uint64_t now) {
    uint64_t most = 0;
    for (struct stream *stream = flight->busy, *next; stream; stream = next) {
        next = stream->next_busy;
        collect(stream, now);
        most = later(most, busy_part(stream, flight->looked_ns, now));
        unlist_idle(stream);
    }
    flight->busy_ns += most;
    flight->looked_ns = now;
}

static void look_now(int gpu) { look(&flights[gpu], now_ns()); }

struct flight_time flight_look(int gpu) {
    lock_take(LOCK_FLIGHT);
    look_now(gpu);
    struct flight_time time = {flights[gpu].busy_ns, flights[gpu].longest_ns};
    lock_release(LOCK_FLIGHT);
    return time;
}

bool flight_is_empty(int gpu) {
    lock_take(LOCK_FLIGHT);
    look_now(gpu);
    bool is_empty = true;
    for (const struct stream *stream = flights[gpu].busy; stream; stream = stream->next_busy)
        is_empty &= !stream->oldest && !stream->is_unmarked;
    lock_release(LOCK_FLIGHT);
    return is_empty;
}

bool flight_is_stuck(int gpu) {
    bool is_stuck = false;
    lock_take(LOCK_FLIGHT);
    for (const struct stream *stream = flights[gpu].busy; stream; stream = stream->next_busy)
        is_stuck |= stream->is_unmarked || is_overdue(stream, now_ns()) ||
                    (stream->oldest && expected_of_marker(stream->oldest) == UNKNOWN_NS);
    lock_release(LOCK_FLIGHT);
    return is_stuck;
}

uint64_t flight_take_busy(int gpu) {
    lock_take(LOCK_FLIGHT);
    uint64_t busy = flights[gpu].busy_ns - flights[gpu].told_busy_ns;
    flights[gpu].told_busy_ns = flights[gpu].busy_ns;
    lock_release(LOCK_FLIGHT);
    return busy;
}

/* ------------------------------------------------------------------------------------------------ at the end */

static uint64_t open_ns_of(const struct stream *stream) {
    uint64_t used = 0;
    FOR_EACH_SLOT(slot)
        FOR_EACH_SEGMENT(slot, segment)
            if (segment->stream == stream && segment->is_open)
                used = sum_ns(used, used_ns(segment));
    return used;
}

/* The driver is not asked any more: what was in flight at the last look, or was launched since, lasted as long as expected. */
uint64_t flight_busy_at_the_end(int gpu) {
    bool is_locked = lock_take_at_exit(LOCK_FLIGHT);
    struct flight *flight = &flights[gpu];
    uint64_t busy = flight->busy_ns - flight->told_busy_ns, most = 0;
    for (const struct stream *stream = flight->busy; stream; stream = stream->next_busy)
        most = later(most, sum_ns(stream->done_ns, sum_ns(remaining_of_all(stream), open_ns_of(stream))));
    if (is_locked)
        lock_release(LOCK_FLIGHT);
    return busy + sooner(most, less_ns(now_ns(), flight->looked_ns));
}
