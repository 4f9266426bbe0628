/* Events: making one, and sharing it between processes. */
#ifndef SIMGPU_EVENT_H
#define SIMGPU_EVENT_H

#include "driver/base/objects.h"

CUevent sg_new_event(CUcontext context, unsigned flags);
/* Gives the event a moment that other processes can open; false if there is no descriptor left. */
bool sg_share_event(CUevent event);
void sg_unshare_event(CUevent event);

#endif
