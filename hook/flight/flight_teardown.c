/* What ends: streams, threads, contexts, and in a forked child everything.
 *
 * The rule: what is in flight is marked before its stream can be marked no more; what belonged to a context that is gone is
 * never touched again.  */
#include "driver/contexts.h"
#include "driver/devices.h"
#include "driver/lookup.h"
#include "flight/capture.h"
#include "flight/events.h"
#include "flight/flight.h"
#include "flight/flight_state.h"
#include "flight/streams.h"
#include "gate/thread_slots.h"
#include "process/cancel.h"
#include "process/lock_order.h"

void flight_end_stream(CUstream handle) {
    NOT_CANCELLED;
    lock_take(LOCK_FLIGHT);
    FOR_EACH_SLOT(slot)
        FOR_EACH_SEGMENT(slot, segment)
            if (segment->handle == handle && segment->stream && segment_launched(segment))
                mark(segment, false);
    stream_end(handle);
    atomic_fetch_add(&generation, 1);
    lock_release(LOCK_FLIGHT);
}

/* Another thread's default stream of its own is another stream, although its handle is the same. */
void flight_end_thread(struct slot *slot) {
    lock_take(LOCK_FLIGHT);
    FOR_EACH_SEGMENT(slot, segment) {
        if (segment->stream && segment->handle == CU_STREAM_PER_THREAD) {
            mark(segment, true);
            segment->stream->is_alive = false;
        }
        segment->generation = 0;
    }
    lock_release(LOCK_FLIGHT);
}

/* ------------------------------------------------------------------------------------------------ contexts */

/* Which context that is can only be asked by retaining it once more. */
struct ending ending_of_primary(CUdevice device) {
    struct ending ending = {.device = device};
    bool can_ask = DRIVER_HAS(cuDevicePrimaryCtxRetain) && DRIVER_HAS(cuDevicePrimaryCtxRelease_v2);
    if (!can_ask || !primary_is_active(device) ||
        driver.cuDevicePrimaryCtxRetain(&ending.primary, device) != CUDA_SUCCESS)
        return (struct ending){0};
    driver.cuDevicePrimaryCtxRelease_v2(device);
    ending.context = ending.primary;
    return ending;
}

struct ending ending_of_handle(const void *handle) {
    return (struct ending){.context = (CUcontext)(uintptr_t)handle};
}

void flight_before_end(struct ending *ending) {
    lock_take(LOCK_FLIGHT);
    ending_begin(ending);
    lock_release(LOCK_FLIGHT);
}

static void forget_ended_markers(struct flight *flight) {
    for (struct stream *stream = flight->busy, *next; stream; stream = next) {
        next = stream->next_busy;
        if (outlives_endings(stream->context))
            continue;
        while (stream->oldest)
            drop_marker(stream);
        stream->is_unmarked = stream->was_busy = false;
        stream->done_ns = stream->head_counted_ns = 0;
        unlist_idle(stream);
    }
}

/* Asks which contexts are still there: a primary one outlives a release while others hold it.  That it is active no more
 * its device says for certain; what is said of the context itself, where it is still current, a driver may choose. */
void flight_after_end(struct ending *ending) {
    lock_take(LOCK_FLIGHT);
    ending_finish(ending);
    context_set_gone(ending->primary && !primary_is_active(ending->device) ? ending->primary : NULL);
    for (int gpu = 0; gpu < devices_count(); gpu++)
        forget_ended_markers(&flights[gpu]);
    streams_forget_ended();
    events_forget_ended();
    capture_forget_ended();
    atomic_fetch_add(&generation, 1);
    lock_release(LOCK_FLIGHT);
}

void flight_forget_all(void) {
    for (int gpu = 0; gpu < MOST_GPUS; gpu++)
        flights[gpu] = (struct flight){0};
    streams_forget_all();
    events_forget_all();
    capture_forget_all();
    FOR_EACH_SLOT(slot)
        FOR_EACH_SEGMENT(slot, segment)
            *segment = (struct segment){0};
    atomic_fetch_add(&generation, 1);
}
