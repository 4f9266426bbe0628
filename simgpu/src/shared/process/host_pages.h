/* Paged-out bytes in this process' own memory.
 *
 * The rule: where SIMGPU_HOST_PAGES=on says so, a thread of the process that owns managed memory holds as many anonymous
 * pages as bytes of it are paged out.  So they are charged to the owner's memory cgroup, as NVIDIA's module charges them,
 * whoever pushed them out. */
#ifndef SIMGPU_HOST_PAGES_H
#define SIMGPU_HOST_PAGES_H

#include <stdbool.h>

/* Starts the thread, once in a process; false when it cannot be started. */
bool sg_start_host_pages(void);

#endif
