/* What this process has in flight on each GPU.
 *
 * The rule: one bound a stream, never a sum.  A stream may have in flight B / n or one launch, n: the streams of the GPU that
 * are busy; the next may enter when no more than 4 ms, or a tenth of its own length, remain.  B is 20 ms while another
 * container waits, or waited within the last 200 ms; then a tenth of the time since it waited, at most the daemon's
 * `alone_flight_ms`.  So a neighbour waits longer by at most a tenth of the time that it was away, and a program that is alone
 * is not held back.
 * Length is learned for each kind of work.  A new function starts alone while somebody waits; otherwise it counts as B / 8.
 * A thread is granted a piece at a time and launches against it without asking; when it is used up, the thread records an
 * event behind it (a marker) and asks here for more.
 * Work of a known kind may suddenly take much longer.  That is found when its first marker is overdue, and counted in
 * `overruns`; a yield then waits at most for what was in flight at that moment.
 * One lock over markers, streams and what is learned; nothing here waits under it. */
#define _GNU_SOURCE
#include "flight/flight.h"

#include <unistd.h>

#include "flight/capture.h"
#include "flight/flight_state.h"
#include "gate/thread_slots.h"
#include "process/clock.h"
#include "process/lock_order.h"

#define ENTER_WHEN_LEFT_NS (4 * MS) /* or a tenth of what enters: a busy host is late by more than that now and then */
#define QUIET_NS (200 * MS)         /* somebody who waited so lately counts as waiting */
#define PART_OF_QUIET 10
#define UNKNOWN_PART 8     /* of the bound: what a function that nobody knows counts */
#define PIECES 5           /* of a stream's bound */
#define LARGEST_PIECE_NS (50 * MS)
#define MOST_LAUNCHES 512  /* a stream; a driver blocks near 1,000 */
#define ENTER_LAUNCHES 384 /* a stream that was full takes more from here on: else its launches go one by one */
#define PIECE_LAUNCHES 256
#define TIMED_EVERY 64     /* pieces */
#define MOST_MARKERS_A_STREAM 64 /* a driver counts events as it counts launches */
#define LOOK_EVERY_NS (MS / 2)
#define UNPAUSED_NS (20 * MS) /* after a timing event: its work is launched by then … */
#define UNPAUSED_BOUNDS 4     /* … and is no more than that */

static uint64_t least_bound_ns = NVSHARE_WIRE_FLIGHT_MS * MS;
static uint64_t most_bound_ns = NVSHARE_WIRE_ALONE_FLIGHT_MS * MS;
static uint64_t patience_ns = 1000 * MS;

/* Work may wait for work that the same thread has yet to launch, on another GPU or by the host's hand: holding it back
 * for ever would hang the program.  With several GPUs that is common (collectives), so patience is short. */
void flight_set_bound(unsigned milliseconds, unsigned alone_milliseconds, unsigned gpu_count) {
    lock_take(LOCK_FLIGHT);
    if (milliseconds)
        least_bound_ns = milliseconds * MS;
    most_bound_ns = later(alone_milliseconds * MS, least_bound_ns);
    patience_ns = gpu_count > 1 ? least_bound_ns : 1000 * MS;
    lock_release(LOCK_FLIGHT);
}

void flight_set_waited(int gpu, bool is_waited, uint64_t quiet_ns) {
    lock_take(LOCK_FLIGHT);
    struct flight *flight = &flights[gpu];
    uint64_t now = now_ns();
    if (is_waited)
        flight->waited_ns = now;
    else if (quiet_ns != UNKNOWN_NS)
        flight->waited_ns = less_ns(now, quiet_ns);
    else if (flight->is_waited || !flight->waited_ns)
        flight->waited_ns = now;
    flight->is_waited = is_waited;
    lock_release(LOCK_FLIGHT);
}

/* ------------------------------------------------------------------------------------------------ looking */

void flight_close(struct segment *segment) { mark(segment, true); }

void flight_mark_at_once(struct segment *segment) {
    lock_take(LOCK_FLIGHT);
    mark(segment, true);
    lock_release(LOCK_FLIGHT);
}

void flight_mark_launch(struct segment *segment) {
    lock_take(LOCK_FLIGHT);
    mark(segment, true);
    open_segment(segment, UNKNOWN_NS, 1, now_ns());
    atomic_store_explicit(&segment->launches_left, 0, memory_order_relaxed);
    mark(segment, true);
    lock_release(LOCK_FLIGHT);
}

void flight_flush(int gpu) {
    lock_take(LOCK_FLIGHT);
    FOR_EACH_SLOT(slot)
        FOR_EACH_SEGMENT(slot, segment)
            if (segment->gpu == gpu && segment->stream)
                mark(segment, false);
    lock_release(LOCK_FLIGHT);
}

static uint64_t launched_without_marker(int gpu) {
    uint64_t sum = 0;
    FOR_EACH_SLOT(slot)
        FOR_EACH_SEGMENT(slot, segment)
            if (segment->gpu == gpu && segment->stream)
                sum += segment_launched(segment);
    return sum;
}

uint64_t flight_activity(int gpu) {
    lock_take(LOCK_FLIGHT);
    uint64_t sum = flights[gpu].marked + launched_without_marker(gpu);
    lock_release(LOCK_FLIGHT);
    return sum;
}

bool flight_has_unmarked(int gpu) {
    lock_take(LOCK_FLIGHT);
    bool has = launched_without_marker(gpu) > 0;
    lock_release(LOCK_FLIGHT);
    return has;
}

/* ------------------------------------------------------------------------------------------------ the bound */

static bool is_waited(const struct flight *flight, uint64_t now) {
    return flight->is_waited || less_ns(now, flight->waited_ns) < QUIET_NS;
}

static uint64_t bound_ns(const struct flight *flight, uint64_t now) {
    if (is_waited(flight, now))
        return least_bound_ns;
    return later(least_bound_ns, sooner(most_bound_ns, less_ns(now, flight->waited_ns) / PART_OF_QUIET));
}

/* Of one stream. */
static uint64_t share_ns(const struct stream *stream, uint64_t now) {
    const struct flight *flight = &flights[stream->gpu];
    return bound_ns(flight, now) / (flight->busy_count + !stream->is_listed);
}

/* What the stream still has in flight, by what is known. */
static uint64_t remaining_ns(const struct stream *stream, uint64_t now) {
    uint64_t sum = stream->open_ns, unknown = bound_ns(&flights[stream->gpu], now) / UNKNOWN_PART;
    const struct marker *head = stream->oldest;
    for (const struct marker *marker = head; marker; marker = marker->next) {
        uint64_t expected = expected_of_marker(marker);
        expected = expected == UNKNOWN_NS ? unknown : expected;
        uint64_t ran = marker == head ? less_ns(now, later(head->opened_ns, stream->last_end_ns)) : 0;
        sum += less_ns(expected, ran);
    }
    return sum;
}

static uint64_t enter_when_left_ns(uint64_t expected) {
    return expected == UNKNOWN_NS ? ENTER_WHEN_LEFT_NS : later(ENTER_WHEN_LEFT_NS, expected / 10);
}

static bool has_room_for_a_launch(struct stream *stream) {
    stream->is_full = stream->launches >= (stream->is_full ? ENTER_LAUNCHES : MOST_LAUNCHES);
    return !stream->is_full;
}

static bool may_enter(struct stream *stream, uint64_t expected, uint64_t now) {
    const struct flight *flight = &flights[stream->gpu];
    bool is_empty = !stream->oldest && !stream->open_segments && !stream->is_unmarked;
    if (!has_room_for_a_launch(stream))
        return false;
    if (is_empty)
        return true;
    bool is_unknown = expected == UNKNOWN_NS, is_head_unknown = stream->oldest && expected_of_marker(stream->oldest) == UNKNOWN_NS;
    if ((is_unknown || is_head_unknown) && is_waited(flight, now))
        return false;
    uint64_t remaining = remaining_ns(stream, now), share = share_ns(stream, now);
    if (is_unknown)
        return remaining + share / UNKNOWN_PART <= share;
    return remaining <= enter_when_left_ns(expected) || remaining + expected <= share;
}

/* Work that holds the stream up runs longer than expected, or nobody knows it: perhaps it waits for this very launch.  The
 * first one to go in behind it waits for long, the others behind the same work need not. */
static bool has_lost_patience(struct stream *stream, uint64_t began, uint64_t now) {
    const struct marker *head = stream->oldest;
    bool is_known = head && expected_of_marker(head) != UNKNOWN_NS;
    if (is_known && !is_overdue(stream, now))
        return false;
    uint64_t due = is_known ? later(head->marked_ns, stream->last_end_ns) + expected_of_marker(head) : 0;
    uint64_t patience = head && stream->waited_for == head ? sooner(least_bound_ns, patience_ns) : patience_ns;
    if (less_ns(now, later(began, due)) < patience)
        return false;
    stream->waited_for = head;
    overruns++;
    return true;
}

/* ------------------------------------------------------------------------------------------------ admission */

/* Long enough to be cheap, short enough to see the end of the oldest piece sharply. */
static useconds_t pause_us(const struct stream *stream, uint64_t expected, uint64_t now) {
    uint64_t remaining = remaining_ns(stream, now), share = share_ns(stream, now);
    uint64_t enough = later(enter_when_left_ns(expected), expected == UNKNOWN_NS ? 0 : less_ns(share, expected));
    if (stream->is_full) /* until enough launches have ended */
        enough = remaining / MOST_LAUNCHES * ENTER_LAUNCHES;
    uint64_t pause = less_ns(remaining, enough) * 3 / 4;
    return (useconds_t)((pause < 20 * US ? 20 * US : pause > MS ? MS : pause) / US);
}

/* The stream still has so many places; half of them stay for other threads. */
static uint32_t free_launches(const struct stream *stream) {
    uint32_t free = stream->launches < MOST_LAUNCHES ? (MOST_LAUNCHES - stream->launches + 1) / 2 : 1;
    return free < PIECE_LAUNCHES ? free : PIECE_LAUNCHES;
}

/* One launch between two events, whose length is learned from them. */
static bool is_to_be_timed(const struct slot *slot, const struct stream *stream, struct measured *measured, uint64_t now) {
    struct flight *flight = &flights[stream->gpu];
    bool is_due = flight->wary || ++flight->grants % TIMED_EVERY == 0;
    if (stream->marker_count >= MOST_MARKERS_A_STREAM / 2 || now < slot->unpaused_until_ns)
        return false;
    return DRIVER_HAS(cuEventElapsedTime) && !captures_are_open() && (measured_wants_timing(measured) || is_due);
}

static void grant(struct slot *slot, struct segment *segment, struct measured *measured, uint64_t expected, uint64_t now) {
    struct stream *stream = segment->stream;
    struct flight *flight = &flights[segment->gpu];
    uint64_t share = share_ns(stream, now), room = less_ns(share, remaining_ns(stream, now));
    uint64_t piece = sooner(sooner(room, share / PIECES), LARGEST_PIECE_NS) / (1 + stream->open_segments);
    bool is_timed = !segment_launched(segment) && is_to_be_timed(slot, stream, measured, now);
    bool is_single = is_timed || flight->wary || captures_are_open() || expected > piece;
    flight->wary -= flight->wary > 0;
    piece = is_single ? later(expected, 1) : later(piece, 1);
    open_segment(segment, piece, is_single ? 1 : free_launches(stream), now);
    slot->marks_at_once = captures_are_open() || (is_timed && begin_timing(segment));
}

static void look_now_and_then(struct flight *flight, uint64_t now) {
    if (now - flight->looked_ns >= LOOK_EVERY_NS)
        look(flight, now);
}

/* The program measures the time of what it launches now: a pause would be in its figures. */
static bool may_enter_unpaused(const struct slot *slot, struct stream *stream, uint64_t now) {
    return now < slot->unpaused_until_ns && has_room_for_a_launch(stream) &&
           remaining_ns(stream, now) <= UNPAUSED_BOUNDS * bound_ns(&flights[stream->gpu], now);
}

void flight_make_room(struct slot *slot, struct segment *segment) {
    struct stream *stream = segment->stream;
    lock_take(LOCK_FLIGHT);
    mark(segment, true);
    for (uint64_t began = now_ns(), now = began; gate_is_open(segment->gpu); now = now_ns()) {
        collect(stream, now);
        if (remaining_ns(stream, now) <= share_ns(stream, now) / 2 || has_lost_patience(stream, began, now))
            break;
        lock_release(LOCK_FLIGHT);
        usleep(50);
        lock_take(LOCK_FLIGHT);
    }
    slot->unpaused_until_ns = now_ns() + UNPAUSED_NS;
    lock_release(LOCK_FLIGHT);
}

bool flight_admit(struct slot *slot, struct segment *segment, struct measured *measured) {
    struct stream *stream = segment->stream;
    lock_take(LOCK_FLIGHT);
    if (stream->marker_count < MOST_MARKERS_A_STREAM) /* else something waits, and events would only fill the driver's queue */
        mark(segment, true);
    for (uint64_t began = now_ns();;) {
        uint64_t now = now_ns(), expected = atomic_load_explicit(&measured->expected_ns, memory_order_relaxed);
        collect(stream, now);
        look_now_and_then(&flights[segment->gpu], now);
        if (may_enter(stream, expected, now) || may_enter_unpaused(slot, stream, now) || has_lost_patience(stream, began, now)) {
            grant(slot, segment, measured, expected, now);
            break;
        }
        useconds_t pause = pause_us(stream, expected, now);
        lock_release(LOCK_FLIGHT);
        usleep(pause);
        if (!gate_is_open(segment->gpu) && !atomic_load_explicit(&slot->in, memory_order_relaxed))
            return false;
        lock_take(LOCK_FLIGHT);
    }
    lock_release(LOCK_FLIGHT);
    return true;
}
