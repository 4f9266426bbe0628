/* Stream capture: what is launched into a capturing stream goes into a graph, not onto a GPU. */
#ifndef NVSHARE_CAPTURE_H
#define NVSHARE_CAPTURE_H

#include <stdbool.h>

#include "driver.h"

/* Before a capture begins: events behind all that was launched, so that none need be recorded while it lasts. */
void capture_begin(void);
void capture_end(void);
bool captures_are_open(void);
/* Whether the stream is capturing now. */
bool capture_covers(CUstream stream);

/* Around the hook's own driver calls: a capture in global mode forbids them to every thread that is not relaxed. */
CUstreamCaptureMode capture_relax(void);
void capture_restore(CUstreamCaptureMode before);

#endif
