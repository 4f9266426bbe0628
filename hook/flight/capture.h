/* Stream capture: work that is launched into a capturing stream goes into a graph, not onto a GPU. */
#ifndef NVSHARE_CAPTURE_H
#define NVSHARE_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "driver/driver.h"

/* Called before a capture begins.  turns_flush follows, so that no event must be recorded behind earlier work during it. */
void capture_begin(CUstream stream);
void capture_began(CUstream stream); /* into a graph that the driver makes */
/* Called when the capture that began on the stream has ended; does nothing if there is none.  Returns its graph, which is
 * not usable when the capture failed. */
CUgraph capture_end(CUstream stream);
void capture_forget_ended(void); /* forgets captures of contexts that are gone; under the lock of flight */
void capture_forget_all(void);   /* in a forked child */
extern atomic_int open_captures; /* the number of open captures: every launch reads it */
bool captures_are_open(void);
/* Whether work that goes into the stream now is captured, or is refused because another stream captures. */
bool capture_covers(CUstream stream);

/* Called around the hook's own driver calls: a capture in global mode forbids them to each thread that is not relaxed. */
CUstreamCaptureMode capture_relax(void);
void capture_restore(CUstreamCaptureMode before);

#endif
