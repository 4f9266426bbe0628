/* The macros of the generated wrappers: one macro for each kind in functions.table. */
#ifndef NVSHARE_WRAP_H
#define NVSHARE_WRAP_H

#include <string.h>

#include "flight/capture.h"
#include "flight/flight.h"
#include "process/cancel.h"
#include "process/lock_order.h"
#include "turns/turns.h"
#include "wrappers/claims.h"
#include "wrappers/launch.h"

#define CONFIG_SHAPE(config)                                                                                            \
    {(config)->gridDimX, (config)->gridDimY, (config)->gridDimZ, (config)->blockDimX, (config)->blockDimY, (config)->blockDimZ}

/* Without a config the driver reports the error itself; there is nothing to read. */
#define LAUNCH_NEEDS_CONFIG(function, arguments)                                                                        \
    if (UNLIKELY(!config))                                                                                              \
        return DRIVER_HAS(function) ? driver.function arguments : CUDA_ERROR_NOT_FOUND

#define THROUGH_THE_GATE(function, stream, work, arguments)                                                             \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    const struct key key = work;                                                                                        \
    struct slot *slot = launch_begin(stream, &key);                                                                       \
    if (IS_REFUSED(slot))                                                                                               \
        return CUDA_ERROR_NOT_PERMITTED;                                                                                \
    CUresult result = driver.function arguments;                                                                        \
    launch_end(slot);                                                                                                   \
    return result

#define BEGIN_CAPTURE(function, stream, arguments)                                                                      \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    capture_begin(stream);                                                                                              \
    turns_flush();                                                                                                      \
    CUresult result = driver.function arguments;                                                                        \
    if (result != CUDA_SUCCESS)                                                                                         \
        capture_end(stream);                                                                                            \
    else if (!strstr(#function, "ToGraph"))                                                                             \
        capture_began(stream);                                                                                          \
    return result

#define FINISH_CAPTURE(function, stream, arguments)                                                                     \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    bool was_capturing = capture_covers(stream);                                                                        \
    CUresult result = driver.function arguments;                                                                        \
    bool is_over = was_capturing && !capture_covers(stream); /* that call may fail and leave it open */                 \
    CUgraph graph = is_over ? capture_end(stream) : NULL;                                                               \
    if (graph && result != CUDA_SUCCESS)                                                                                \
        claims_end_graph(graph);                                                                                        \
    return result

#define END_STREAM(function, stream)                                                                                    \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    flight_end_stream(stream);                                                                                          \
    CUresult result = driver.function(stream);                                                                          \
    CUgraph graph = result == CUDA_SUCCESS ? capture_end(stream) : NULL;                                                \
    if (UNLIKELY(graph != NULL))                                                                                        \
        claims_end_graph(graph);                                                                                        \
    return result

#define END_CONTEXT(function, arguments)                                                                                \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    NOT_CANCELLED;                                                                                                      \
    struct ending ending = ENDING_OF arguments;                                                                         \
    flight_before_end(&ending);                                                                                         \
    CUresult result = driver.function arguments;                                                                        \
    flight_after_end(&ending);                                                                                          \
    claims_end_contexts();                                                                                              \
    return result

#endif
