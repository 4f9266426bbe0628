/* Attaches this process to the shared file, once; a forked child is not this process. */
#define _GNU_SOURCE
#include "client.h"

#include <stdio.h>
#include <unistd.h>

#include "locks.h"
#include "shared/file/slots.h"

struct sg_client sg_client = {.transaction = SG_MUTEX(SG_RANK_TRANSACTION)};
static bool watches_forks;
static struct sg_mutex attach_lock = SG_MUTEX(SG_RANK_ATTACH);

uint64_t sg_to_now(uint64_t monotonic_ns) {
    const struct sg_header *header = sg_client.map.header;
    uint64_t passed = monotonic_ns - header->created_monotonic_ns;
    double speed = header->physics.speed;
    if (speed > 1.0 || speed < 1.0)
        return (uint64_t)((double)passed * speed) + 1;
    return passed + 1;
}

uint64_t sg_now(void) {
    return sg_to_now(sg_monotonic_ns());
}

/* The child of a fork is not this process: it must neither hold our slot alive nor use our state. */
static void leave_after_fork(void) {
    sg_client.forked = true;
    if (sg_client.map.descriptor >= 0)
        close(sg_client.map.descriptor);
    sg_client.map.descriptor = -1;
}

void sg_forget_parent(void) {
    sg_close_file(&sg_client.map);
    sg_client = (struct sg_client){.map.descriptor = -1, .transaction = SG_MUTEX(SG_RANK_TRANSACTION)};
    attach_lock = (struct sg_mutex)SG_MUTEX(SG_RANK_ATTACH); /* its holder stayed behind */
}

static bool attach_once(struct sg_client *client) {
    char problem[256];
    if (!sg_read_settings(&client->settings, problem) || !sg_open_file(&client->map, &client->settings, problem)) {
        fprintf(stderr, "simgpu: %s\n", problem);
        return false;
    }
    if (!sg_take_slot(&client->map, client->settings.label)) {
        fprintf(stderr, "simgpu: %d processes use %s already; end some of them\n", SG_SLOTS, client->settings.file);
        sg_close_file(&client->map);
        return false;
    }
    if (!watches_forks)
        pthread_atfork(NULL, NULL, leave_after_fork);
    watches_forks = true; /* a child inherits the handler */
    return client->attached = true;
}

bool sg_attach(void) {
    sg_lock(&attach_lock);
    bool attached = !sg_client.forked && (sg_client.attached || attach_once(&sg_client));
    sg_unlock(&attach_lock);
    return attached;
}
