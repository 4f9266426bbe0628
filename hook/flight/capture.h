/* Stream capture: what is launched into a capturing stream goes into a graph, not onto a GPU. */
#ifndef NVSHARE_CAPTURE_H
#define NVSHARE_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "driver/driver.h"

/* Before a capture begins; turns_flush after it, so that no event need be recorded behind earlier work while it lasts. */
void capture_begin(CUstream stream);
void capture_began(CUstream stream); /* into a graph that the driver makes */
/* The capture that began on the stream is open no longer; nothing where none is. Its graph: of no use when the capture failed. */
CUgraph capture_end(CUstream stream);
void capture_forget_ended(void); /* under the lock of flight: those of contexts that are gone */
void capture_forget_all(void);   /* in a forked child */
extern atomic_int open_captures; /* how many there are: every launch looks */
bool captures_are_open(void);
/* Whether what goes into the stream now is captured, or is refused since another stream captures. */
bool capture_covers(CUstream stream);

/* Around the hook's own driver calls: a capture in global mode forbids them to every thread that is not relaxed. */
CUstreamCaptureMode capture_relax(void);
void capture_restore(CUstreamCaptureMode before);

#endif
