/* Stream capture.
 *
 * The rule: while any capture is open, our own calls run relaxed, no event goes into a capturing stream, and each launch
 * that is not captured gets its event at once, by the thread that launched (launch_end), since its stream may join the
 * capture later.  A capture is open until the driver says that its stream captures no more, or the stream is no more. */
#include "flight/capture.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "driver/contexts.h"
#include "driver/lookup.h"
#include "flight/streams.h"
#include "gate/gate.h"
#include "process/cancel.h"
#include "process/lock_order.h"

/* Under the lock of flight. */
struct capture {
    CUstream origin;
    CUcontext context;
    CUgraph graph; /* what is captured goes into; NULL: not known, or the application's own from before */
    struct capture *next;
};
static struct capture *captures;
atomic_int open_captures;

bool captures_are_open(void) { return atomic_load(&open_captures) > 0; }

/* An error is as good as a yes: the legacy stream cannot be asked while a blocking one captures, and not be used either. */
bool capture_covers(CUstream stream) {
    CUstreamCaptureStatus status = 0;
    if (!captures_are_open() || !DRIVER_HAS(cuStreamIsCapturing))
        return false;
    return driver.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != 0;
}

void capture_begin(CUstream stream) {
    NOT_CANCELLED;
    struct capture *capture = malloc(sizeof *capture);
    if (!capture)
        return;
    *capture = (struct capture){.origin = stream, .context = context_of(stream)};
    lock_take(LOCK_FLIGHT);
    capture->next = captures;
    captures = capture;
    atomic_fetch_add(&open_captures, 1);
    atomic_fetch_add(&generation, 1); /* from now on every launch takes the slow path and asks capture_covers */
    lock_release(LOCK_FLIGHT);
}

static void remove_at(struct capture **at) {
    struct capture *capture = *at;
    *at = capture->next;
    free(capture);
    atomic_fetch_sub(&open_captures, 1);
}

static struct capture **find(CUstream stream) {
    struct capture **at = &captures;
    while (*at && (*at)->origin != stream)
        at = &(*at)->next;
    return at;
}

/* Asked now: of a capture that has become invalid the driver does not say it any more. */
void capture_began(CUstream stream) {
    CUstreamCaptureStatus status = 0;
    CUgraph graph = NULL;
    NOT_CANCELLED;
    if (!DRIVER_HAS(cuStreamGetCaptureInfo_v2) ||
        driver.cuStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, NULL, NULL) != CUDA_SUCCESS)
        return;
    lock_take(LOCK_FLIGHT);
    struct capture **at = find(stream);
    if (*at)
        (*at)->graph = graph;
    lock_release(LOCK_FLIGHT);
}

CUgraph capture_end(CUstream stream) {
    CUgraph graph = NULL;
    if (!captures_are_open())
        return NULL;
    NOT_CANCELLED;
    lock_take(LOCK_FLIGHT);
    struct capture **at = find(stream);
    if (*at) {
        graph = (*at)->graph;
        remove_at(at);
    }
    lock_release(LOCK_FLIGHT);
    return graph;
}

void capture_forget_ended(void) {
    for (struct capture **at = &captures; *at;) {
        if (outlives_endings((*at)->context))
            at = &(*at)->next;
        else
            remove_at(at);
    }
}

void capture_forget_all(void) {
    captures = NULL;
    atomic_store(&open_captures, 0);
}

CUstreamCaptureMode capture_relax(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (captures_are_open() && DRIVER_HAS(cuThreadExchangeStreamCaptureMode))
        driver.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void capture_restore(CUstreamCaptureMode before) {
    if (before != CU_STREAM_CAPTURE_MODE_RELAXED && DRIVER_HAS(cuThreadExchangeStreamCaptureMode))
        driver.cuThreadExchangeStreamCaptureMode(&before);
}
