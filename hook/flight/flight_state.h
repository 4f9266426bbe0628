/* The state that the files of flight.h share.
 *
 * The rule: all of it is under the flight lock, and only the files of flight.h include this header. */
#ifndef NVSHARE_FLIGHT_STATE_H
#define NVSHARE_FLIGHT_STATE_H

#include "gate/gate.h"

#define MOST_GPUS NVSHARE_SHARED_MEMORY_MOST_GPUS
#define MOST_MARKERS 64 /* more only when work was let through behind work that waits */

/* An event behind one piece of work. */
struct marker {
    CUevent event;
    CUcontext context;
    struct stream *stream;
    struct measured *only;
    uint64_t opened_ns, expected_ns, last_busy_ns;
    uint32_t launches;
    bool has_ended;
};

struct flight {
    struct marker *markers;
    int count, room;
    uint64_t last_end_ns;       /* when the last marker was found to have ended … */
    uint64_t last_end_least_ns; /* … and when it was still seen busy: it ended between the two */
    uint64_t busy_ns, marked;
    unsigned wary;
};
extern struct flight flights[MOST_GPUS];

/* How much of its grant the segment has used. */
static inline uint64_t used_ns(const struct segment *segment) {
    return segment->granted_ns == UNKNOWN_NS ? UNKNOWN_NS : segment->granted_ns - segment->credit_ns;
}

static inline uint64_t sum_ns(uint64_t a, uint64_t b) { return a == UNKNOWN_NS || b == UNKNOWN_NS ? UNKNOWN_NS : a + b; }

/* Records an event behind the work of the segment, which is used for other work then.  Never waits. */
void mark(struct segment *segment, bool is_own_thread);

#endif
