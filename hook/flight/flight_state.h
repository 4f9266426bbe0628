/* The state that the files of flight.h share.
 *
 * The rule: all of it is under the flight lock, and only the files of flight.h include this header. */
#ifndef NVSHARE_FLIGHT_STATE_H
#define NVSHARE_FLIGHT_STATE_H

#include "flight/streams.h"
#include "gate/gate.h"

#define MOST_GPUS NVSHARE_SHARED_MEMORY_MOST_GPUS
#define MOST_MARKERS 256 /* on a GPU; more only where more streams than that are busy */

/* An event behind one piece of work. */
struct marker {
    CUevent event;
    CUevent began; /* an event before it, if the piece is timed; else NULL */
    CUcontext context;
    struct measured *only; /* the kind of all its work; NULL: several kinds */
    uint64_t opened_ns, marked_ns, expected_ns;
    uint32_t launches;
    bool was_behind; /* timed while other work was in flight before it, so that its beginning is known exactly */
    struct marker *next;
};

struct flight {
    struct stream *busy; /* streams that have markers, open grants, or work without a marker */
    unsigned busy_count;
    int marker_count;
    bool is_waited;     /* another container waits now */
    uint64_t waited_ns; /* when another container last waited, as far as is known */
    uint64_t looked_ns; /* when all streams were last looked at */
    uint64_t busy_ns, told_busy_ns, longest_ns;
    uint64_t marked;
    unsigned wary, grants;
};
extern struct flight flights[MOST_GPUS];
extern _Atomic uint64_t overruns;

static inline uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t sooner(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t sum_ns(uint64_t a, uint64_t b) { return a == UNKNOWN_NS || b == UNKNOWN_NS ? UNKNOWN_NS : a + b; }
static inline uint64_t less_ns(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* How much of its grant the segment has used. */
static inline uint64_t used_ns(const struct segment *segment) {
    return segment->granted_ns == UNKNOWN_NS ? UNKNOWN_NS : segment->granted_ns - segment->credit_ns;
}

/* flight_markers.c.  Nothing here waits. */
void mark(struct segment *segment, bool is_own_thread); /* records an event behind the work of the segment, and closes it */
bool begin_timing(struct segment *segment);             /* records an event before the next launch of the segment */
void open_segment(struct segment *segment, uint64_t piece_ns, uint32_t launches, uint64_t now);
void drop_marker(struct stream *stream);                /* takes out the oldest */
void list_stream(struct stream *stream);
void unlist_idle(struct stream *stream);                /* when nothing of it is in flight any more */

/* flight_measure.c */
#define WARY_PIECES 64 /* launches one by one after an overrun, until its lengths are learned again */
void collect(struct stream *stream, uint64_t now); /* takes out the markers that have ended, and learns from them */
void look(struct flight *flight, uint64_t now);    /* collects all streams of the GPU, and counts the time in flight */
uint64_t expected_of_marker(const struct marker *marker);
bool is_overdue(const struct stream *stream, uint64_t now); /* the head runs for longer than expected, beyond doubt */

#endif
