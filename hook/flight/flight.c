/* What this process has in flight on each GPU.
 *
 * The rule: in flight at most the bound (20 ms) or one launch; the next may enter when no more than 4 ms, or a tenth of
 * its own length, remain.  Length is learned for each kind of work; a new kind starts alone.  A thread is granted a piece
 * at a time and launches against it without asking; when it is used up, the thread records an event behind it (a marker)
 * and asks here for more.
 * What of one kind suddenly takes much longer is found when its first marker is overdue: what was in flight by then, at
 * most the bound by the old measure, is the most that a yield waits for; it is counted in `overruns`.
 * One lock over markers, streams and what is learned; nothing here waits under it.  A context is ended
 * under it (ending.c), and where the driver waits there for the work in flight, so does whoever launches meanwhile. */
#define _GNU_SOURCE
#include "flight/flight.h"

#include <unistd.h>

#include "driver/contexts.h"
#include "flight/capture.h"
#include "flight/events.h"
#include "flight/flight_state.h"
#include "flight/streams.h"
#include "gate/thread_slots.h"
#include "process/clock.h"
#include "process/lock_order.h"

#define ENTER_WHEN_LEFT_NS (4 * MS) /* or a tenth of what enters: a busy host is late by more than that now and then */
#define LARGEST_PIECE_NS (4 * MS)
#define MOST_LAUNCHES 512 /* a stream; a driver blocks near 1,000 */
#define PIECE_LAUNCHES 256
#define WARY_PIECES 64 /* launches one by one after an overrun, until its lengths are learned again */

struct flight flights[MOST_GPUS];
static uint64_t bound_ns = NVSHARE_WIRE_FLIGHT_MS * MS;
static uint64_t patience_ns = 1000 * MS;
static _Atomic uint64_t overruns;

uint64_t flight_overruns(void) { return overruns; }

/* Work may wait for work that the same thread has yet to launch, on another GPU or by the host's hand: holding it back
 * for ever would hang the program.  With several GPUs that is common (collectives), so patience is short. */
void flight_set_bound(unsigned milliseconds, unsigned gpu_count) {
    if (milliseconds)
        bound_ns = milliseconds * MS;
    patience_ns = gpu_count > 1 ? bound_ns : 1000 * MS;
}

/* ------------------------------------------------------------------------------------------------ learning */

static void learn(struct flight *flight, const struct marker *marker, uint64_t took_ns, bool is_exact) {
    if (marker->only) {
        uint64_t each = took_ns / marker->launches + 1;
        uint64_t before = atomic_load_explicit(&marker->only->expected_ns, memory_order_relaxed);
        if (is_exact || each < before)
            atomic_store_explicit(&marker->only->expected_ns, each, memory_order_relaxed);
    }
    if (is_exact && marker->expected_ns != UNKNOWN_NS && took_ns > 2 * marker->expected_ns + MS) {
        overruns++;
        flight->wary = WARY_PIECES;
    }
    bool is_bounded = marker->expected_ns != UNKNOWN_NS && marker->expected_ns < took_ns && !is_exact;
    flight->busy_ns += is_bounded ? marker->expected_ns : took_ns;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The latest moment at which the piece can have begun to execute. */
static uint64_t started_ns(const struct flight *flight, const struct marker *marker) {
    return later(marker->opened_ns, flight->last_end_ns);
}

static bool has_ended(const struct marker *marker) {
    bool was_pushed = context_push(marker->context);
    CUresult result = driver.cuEventQuery(marker->event);
    context_pop(was_pushed);
    return result != CUDA_ERROR_NOT_READY; /* an event of a context that is gone has ended as well */
}

/* What took so long is known from above, whoever looked late; it is exact when both of its ends were seen sharply. */
static void settle(struct flight *flight, const struct marker *marker, uint64_t now, bool is_alone) {
    uint64_t least = later(marker->opened_ns, flight->last_end_least_ns);
    uint64_t took = now - least, blur = now - later(marker->last_busy_ns, least) + started_ns(flight, marker) - least;
    learn(flight, marker, took, is_alone && blur <= later(took / 8, 200 * US));
    marker->stream->launches -= marker->launches;
    event_give_back(marker->event, marker->context);
}

/* Asks after every marker; how many have ended. */
static int ask_all(struct flight *flight) {
    int ended = 0;
    CUstreamCaptureMode mode = capture_relax();
    for (int i = 0; i < flight->count; i++)
        ended += flight->markers[i].has_ended = has_ended(&flight->markers[i]);
    capture_restore(mode);
    return ended;
}

/* Takes out the markers that have ended. */
static void collect(struct flight *flight, uint64_t now) {
    int kept = 0, ended = ask_all(flight);
    uint64_t last_least = 0;
    for (int i = 0; i < flight->count; i++) {
        struct marker *marker = &flight->markers[i];
        if (marker->has_ended) {
            settle(flight, marker, now, ended == 1);
            last_least = later(marker->last_busy_ns, marker->opened_ns);
            continue;
        }
        marker->last_busy_ns = now;
        flight->markers[kept++] = *marker;
    }
    flight->count = kept;
    if (ended) {
        flight->last_end_ns = now;
        flight->last_end_least_ns = last_least;
    }
}

/* ------------------------------------------------------------------------------------------------ looking */

void flight_close(struct segment *segment) { mark(segment, true); }

void flight_mark_at_once(struct segment *segment) {
    lock_take(LOCK_FLIGHT);
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

bool flight_is_empty(int gpu) {
    lock_take(LOCK_FLIGHT);
    collect(&flights[gpu], now_ns());
    bool is_empty = !flights[gpu].count;
    lock_release(LOCK_FLIGHT);
    return is_empty;
}

uint64_t flight_activity(int gpu) {
    lock_take(LOCK_FLIGHT);
    uint64_t sum = flights[gpu].marked;
    FOR_EACH_SLOT(slot)
        FOR_EACH_SEGMENT(slot, segment)
            if (segment->gpu == gpu && segment->stream)
                sum += segment_launched(segment);
    lock_release(LOCK_FLIGHT);
    return sum;
}

uint64_t flight_take_busy(int gpu) {
    lock_take(LOCK_FLIGHT);
    uint64_t busy = flights[gpu].busy_ns;
    flights[gpu].busy_ns = 0;
    lock_release(LOCK_FLIGHT);
    return busy;
}

uint64_t flight_busy_at_the_end(int gpu) {
    bool is_locked = lock_take_at_exit(LOCK_FLIGHT);
    uint64_t busy = flights[gpu].busy_ns;
    if (is_locked)
        lock_release(LOCK_FLIGHT);
    return busy;
}

/* ------------------------------------------------------------------------------------------------ admission */

/* What is still in flight, by what is known: UNKNOWN_NS while a new kind runs, or something is overdue. */
static uint64_t remaining_ns(const struct flight *flight, uint64_t now) {
    uint64_t sum = 0;
    for (int i = 0; i < flight->count; i++) {
        if (flight->markers[i].expected_ns == UNKNOWN_NS)
            return UNKNOWN_NS;
        sum += flight->markers[i].expected_ns;
    }
    if (!flight->count)
        return 0;
    const struct marker *head = &flight->markers[0];
    uint64_t ran = now - started_ns(flight, head);
    if (ran > head->expected_ns + head->expected_ns / 4 + MS / 2)
        return UNKNOWN_NS;
    return sum - (ran < head->expected_ns ? ran : head->expected_ns);
}

static uint64_t enter_when_left_ns(uint64_t expected) {
    return expected == UNKNOWN_NS ? ENTER_WHEN_LEFT_NS : later(ENTER_WHEN_LEFT_NS, expected / 10);
}

static bool may_enter(const struct flight *flight, const struct stream *stream, uint64_t expected, uint64_t now) {
    uint64_t remaining = remaining_ns(flight, now);
    if (stream->launches >= MOST_LAUNCHES || flight->count >= MOST_MARKERS - 1)
        return false;
    if (!flight->count)
        return true;
    if (remaining == UNKNOWN_NS || expected == UNKNOWN_NS)
        return false;
    return remaining <= enter_when_left_ns(expected) || (expected <= bound_ns && remaining + expected <= bound_ns);
}

/* Long enough to be cheap, short enough to see the end of the oldest piece sharply. */
static useconds_t pause_us(const struct flight *flight, uint64_t expected, uint64_t now) {
    const struct marker *head = &flight->markers[0];
    uint64_t ran = flight->count ? now - started_ns(flight, head) : 0;
    uint64_t left = flight->count && head->expected_ns != UNKNOWN_NS && head->expected_ns > ran ? head->expected_ns - ran : ran / 8;
    if (flight->count == 1 && left > enter_when_left_ns(expected))
        left -= enter_when_left_ns(expected);
    uint64_t pause = left * 3 / 4;
    return (useconds_t)((pause < 20 * US ? 20 * US : pause > MS ? MS : pause) / US);
}

static unsigned open_segments(int gpu) {
    unsigned count = 0;
    FOR_EACH_SLOT(slot)
        FOR_EACH_SEGMENT(slot, segment)
            count += segment->gpu == gpu && segment->stream && segment->granted_ns;
    return count;
}

/* On top of what the segment has launched without a marker, if there is any. */
static void grant(struct segment *segment, uint64_t expected, uint64_t now) {
    struct flight *flight = &flights[segment->gpu];
    uint64_t remaining = remaining_ns(flight, now);
    uint64_t room = remaining < bound_ns ? bound_ns - remaining : 0;
    uint64_t piece = (room < LARGEST_PIECE_NS ? room : LARGEST_PIECE_NS) / (1 + open_segments(segment->gpu));
    bool is_single = flight->wary || captures_are_open() || expected > piece;
    flight->wary -= flight->wary > 0;
    piece = is_single ? expected : piece;
    uint32_t before = segment_launched(segment);
    segment->granted_ns = sum_ns(used_ns(segment), piece ? piece : 1);
    segment->credit_ns = piece ? piece : 1;
    uint32_t in_stream = segment->stream->launches;
    uint32_t free = in_stream < MOST_LAUNCHES ? (MOST_LAUNCHES - in_stream + 1) / 2 : 1;
    uint32_t launches = is_single ? 1 : free < PIECE_LAUNCHES ? free : PIECE_LAUNCHES;
    segment->launches_granted = before + launches;
    atomic_store_explicit(&segment->launches_left, launches, memory_order_relaxed);
    segment->opened_ns = before ? segment->opened_ns : now;
}

bool flight_is_stuck(int gpu) {
    lock_take(LOCK_FLIGHT);
    bool is_stuck = flights[gpu].count && remaining_ns(&flights[gpu], now_ns()) == UNKNOWN_NS;
    lock_release(LOCK_FLIGHT);
    return is_stuck;
}

bool flight_admit(struct slot *slot, struct segment *segment, struct measured *measured) {
    struct flight *flight = &flights[segment->gpu];
    lock_take(LOCK_FLIGHT);
    if (flight->count < MOST_MARKERS) /* else something waits, and events would only fill the driver's queue behind it */
        mark(segment, true);
    for (uint64_t began = now_ns();;) {
        uint64_t now = now_ns(), expected = atomic_load_explicit(&measured->expected_ns, memory_order_relaxed);
        collect(flight, now);
        bool is_patient = now - began < patience_ns;
        if (may_enter(flight, segment->stream, expected, now) || !is_patient) {
            overruns += !is_patient;
            grant(segment, expected, now);
            break;
        }
        useconds_t pause = pause_us(flight, expected, now);
        lock_release(LOCK_FLIGHT);
        usleep(pause);
        if (!gate_is_open(segment->gpu) && !atomic_load_explicit(&slot->in, memory_order_relaxed))
            return false;
        lock_take(LOCK_FLIGHT);
    }
    lock_release(LOCK_FLIGHT);
    return true;
}
