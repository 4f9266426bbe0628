/* The connection to the daemon, and the thread that reads it when no application thread needs to. */
#ifndef NVSHARE_LISTENER_H
#define NVSHARE_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/line.h"

/* What the connection is for: whoever listens is called by the thread, with the turns' lock held. */
struct daemon_handler {
    size_t (*hello)(char *into, size_t size);                           /* the first line of a connection; 0: not now */
    void (*connected)(bool is_connected, uint64_t now);                 /* a daemon has come, or gone */
    bool (*hear)(struct line *line, const int *descriptors, int count); /* false: hang up */
    uint64_t (*tick)(uint64_t now); /* what has become due; returns nanoseconds until it should be called again */
};

/* Starts the thread once a process; false when there is no thread to be had (tried again next time). */
bool listener_start(const struct daemon_handler *handler);
/* Under the turns' lock: sends a line, or keeps it until the socket takes it. */
void listener_send(const char *line, size_t length);
void listener_after_fork(void);

#endif
