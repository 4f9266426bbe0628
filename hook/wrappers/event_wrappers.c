/* The wrappers of events by which programs measure time.
 *
 * The rule: between two timing events of a program the hook adds no pause of its own.  Autotuners (cuDNN, XLA, TensorRT) choose
 * kernels by such times, and keep a wrong choice for good.  So the pause comes before the event: there the thread waits until
 * the stream has room, and its launches of the next 20 ms enter without asking for any (flight.c has the limits).
 * A turn that ends in between is waited for all the same.
 * Events without timing only order streams; they are told apart by the flags with which they were created. */
#include <stdatomic.h>

#include "flight/flight.h"
#include "gate/thread_slots.h"
#include "process/cancel.h"
#include "wrappers/launch.h"

#define PLACES 16384 /* timing events that are alive; a program that has more of them measures the rest with our pauses */
#define PROBES 8

static _Atomic(CUevent) timing[PLACES];

static unsigned place_of(CUevent event, unsigned probe) {
    return ((unsigned)(((uintptr_t)event >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 40) + probe) % PLACES;
}

static void remember(CUevent event) {
    for (unsigned probe = 0; probe < PROBES; probe++) {
        CUevent free = NULL;
        if (atomic_compare_exchange_strong(&timing[place_of(event, probe)], &free, event))
            return;
    }
}

static void forget(CUevent event) {
    for (unsigned probe = 0; probe < PROBES; probe++) {
        CUevent found = event;
        if (atomic_compare_exchange_strong(&timing[place_of(event, probe)], &found, NULL))
            return;
    }
}

static bool is_timing(CUevent event) {
    for (unsigned probe = 0; probe < PROBES; probe++)
        if (atomic_load_explicit(&timing[place_of(event, probe)], memory_order_relaxed) == event)
            return true;
    return false;
}

static void before_record(CUevent event, CUstream stream) {
    struct slot *slot = own_slot;
    if (!event || !slot || atomic_load_explicit(&slot->in, memory_order_relaxed) || captures_are_open() || !is_timing(event))
        return;
    NOT_CANCELLED;
    struct segment *segment = segment_at_hand(slot, stream);
    if (segment)
        flight_make_room(slot, segment);
}

EXPORT CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags) {
    if (!DRIVER_HAS(cuEventCreate))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver.cuEventCreate(phEvent, Flags);
    if (result == CUDA_SUCCESS && !(Flags & CU_EVENT_DISABLE_TIMING))
        remember(*phEvent);
    return result;
}

#define DESTROY(function)                                                                                               \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    if (hEvent)                                                                                                         \
        forget(hEvent);                                                                                                 \
    return driver.function(hEvent)

EXPORT CUresult cuEventDestroy(CUevent hEvent) { DESTROY(cuEventDestroy); }

EXPORT CUresult cuEventDestroy_v2(CUevent hEvent) { DESTROY(cuEventDestroy_v2); }

#define RECORD(function, stream, arguments)                                                                             \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    before_record(hEvent, stream);                                                                                      \
    return driver.function arguments

EXPORT CUresult cuEventRecord(CUevent hEvent, CUstream hStream) { RECORD(cuEventRecord, hStream, (hEvent, hStream)); }

EXPORT CUresult cuEventRecord_ptsz(CUevent hEvent, CUstream hStream) {
    RECORD(cuEventRecord_ptsz, hStream ? hStream : CU_STREAM_PER_THREAD, (hEvent, hStream));
}

EXPORT CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
    RECORD(cuEventRecordWithFlags, hStream, (hEvent, hStream, flags));
}

EXPORT CUresult cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags) {
    RECORD(cuEventRecordWithFlags_ptsz, hStream ? hStream : CU_STREAM_PER_THREAD, (hEvent, hStream, flags));
}
