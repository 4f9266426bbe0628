/* The listener: the connection to the daemon, and the thread that reads it.
 *
 * The rule: the listener moves bytes and keeps time; the handler knows what the lines mean. */
#ifndef NVSHARE_LISTENER_H
#define NVSHARE_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/line.h"

/* The functions that the thread calls, with the lock of the turns held. */
struct daemon_handler {
    size_t (*hello)(char *into, size_t size);                           /* writes the first line of a connection; 0: not now */
    void (*connected)(bool is_connected, uint64_t now);                 /* a daemon has come, or gone */
    bool (*hear)(struct line *line, const int *descriptors, int count); /* false: hang up */
    uint64_t (*tick)(uint64_t now); /* does all that is due; returns nanoseconds until the next call */
};

/* Starts the thread, once in a process; false when no thread can be started (the next call tries again). */
bool listener_start(const struct daemon_handler *handler);
/* Sends a line, or keeps it until the socket takes it.  The caller holds the lock of the turns. */
void listener_send(const char *line, size_t length);
/* Why no daemon answers, in words.  The caller holds the lock of the turns. */
const char *listener_trouble(void);
/* The process ends: the thread goes on with the lines, but calls no handler that may ask the driver. */
bool listener_is_ending(void);
void listener_after_fork(void);

#endif
