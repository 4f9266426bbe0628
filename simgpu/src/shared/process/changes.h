/* Word between processes that something changed: who waits for the device sleeps on it. */
#ifndef SIMGPU_CHANGES_H
#define SIMGPU_CHANGES_H

#include <stdint.h>

/* Tells every waiter that something may have come nearer. */
void sg_tell_change(void);
uint32_t sg_change_count(void);
/* Sleeps until something changed since `seen`, at most `simulated_ns` (and never above a look's interval). */
void sg_sleep(uint32_t seen, uint64_t simulated_ns);

#endif
