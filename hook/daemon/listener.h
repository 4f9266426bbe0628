/* The connection to the daemon, and the thread that reads it when no application thread needs to. */
#ifndef NVSHARE_LISTENER_H
#define NVSHARE_LISTENER_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

/* Starts the thread once a process; false when there is no thread to be had (tried again next time). */
bool listener_start(void);
/* Under the turns' lock: sends a line, or keeps it until the socket takes it. */
void listener_send(const char *line, size_t length);
void listener_wake(void); /* something for turns_tick */
void listener_after_fork(void);

#endif
