/* Spare events: they are created once for a context and used again and again.
 *
 * The rule: the caller of each function holds the lock of flight. */
#ifndef NVSHARE_EVENTS_H
#define NVSHARE_EVENTS_H

#include <stdbool.h>

#include "driver/driver.h"

CUevent spare_event(CUcontext context, bool is_timed); /* an event of the current context; NULL when the driver creates none */
void event_give_back(CUevent event, CUcontext context, bool is_timed);
void events_forget_ended(void); /* forgets the events of contexts that have ended; they ended with them */
void events_forget_all(void);   /* in a forked child */

#endif
