/* Stream capture.
 *
 * The rule: while any capture is open, our own calls run relaxed, no event goes into a capturing stream, and each launch
 * that is not captured gets its event at once, by the thread that launched, since its stream may join the capture later.
 * May call flight and slots. */
#include "capture.h"

#include <stdatomic.h>

#include "devices.h"
#include "flight.h"
#include "slots.h"
#include "turns.h"

static atomic_int open_captures;

bool captures_are_open(void) { return atomic_load(&open_captures) > 0; }

bool capture_covers(CUstream stream) {
    CUstreamCaptureStatus status = 0;
    if (!captures_are_open() || !DRIVER_HAS(cuStreamIsCapturing))
        return false;
    return driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != 0;
}

void capture_begin(void) {
    flight_lock();
    atomic_fetch_add(&open_captures, 1);
    atomic_fetch_add(&generation, 1); /* from now on every launch takes the slow path and asks capture_covers */
    flight_unlock();
    for (int gpu = 0; gpu < devices_count(); gpu++)
        turns_flush(gpu);
}

void capture_end(void) { atomic_fetch_sub(&open_captures, 1); }

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
