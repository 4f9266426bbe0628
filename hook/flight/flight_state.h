/* What the files of flight.h share: all of it under the flight lock.  Nobody else includes this. */
#ifndef NVSHARE_FLIGHT_STATE_H
#define NVSHARE_FLIGHT_STATE_H

#include "gate/gate.h"

#define MOST_GPUS NVSHARE_SHARED_MEMORY_MOST_GPUS
#define MOST_MARKERS 64 /* more only where work was let through behind something that waits */

/* An event behind one piece. */
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
    uint64_t last_end_ns;       /* when the last one was found to have ended … */
    uint64_t last_end_least_ns; /* … and when it was still seen busy: it ended between the two */
    uint64_t busy_ns, marked;
    unsigned wary;
};
extern struct flight flights[MOST_GPUS];

/* What the segment has used of what it was granted. */
static inline uint64_t used_ns(const struct segment *segment) {
    return segment->granted_ns == UNKNOWN_NS ? UNKNOWN_NS : segment->granted_ns - segment->credit_ns;
}

static inline uint64_t sum_ns(uint64_t a, uint64_t b) { return a == UNKNOWN_NS || b == UNKNOWN_NS ? UNKNOWN_NS : a + b; }

/* An event behind what the segment has launched, which is then used for something else.  Never waits. */
void mark(struct segment *segment, bool is_own_thread);

#endif
