/* Spare events: made once a context, used again and again.  All of it under the lock of flight. */
#ifndef NVSHARE_EVENTS_H
#define NVSHARE_EVENTS_H

#include "driver/driver.h"

CUevent spare_event(CUcontext context); /* of the current context; NULL where the driver makes none */
void event_give_back(CUevent event, CUcontext context);
void events_forget_ended(void); /* of contexts that have ended, and they with them */
void events_forget_all(void);   /* in a forked child */

#endif
