/* The counter of changes: processes that wait for a device sleep on it, and other processes wake them. */
#ifndef SIMGPU_CHANGES_H
#define SIMGPU_CHANGES_H

#include <stdint.h>

/* Wakes every waiter, because the end of its wait may have changed. */
void sg_tell_change(void);
uint32_t sg_change_count(void);
/* Sleeps until a change after `seen`, at most `simulated_ns`, and never longer than the interval between two looks. */
void sg_sleep(uint32_t seen, uint64_t simulated_ns);

#endif
