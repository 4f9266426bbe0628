/* This process' part in the shared file: its slot, its transactions, its waits. */
#ifndef SIMGPU_CLIENT_H
#define SIMGPU_CLIENT_H

#include "shared/file/file.h"

struct sg_client {
    struct sg_map map;
    struct sg_settings settings;
    uint32_t owner; /* slot and generation, as it stands in the lock word and in contexts */
    bool attached, forked;
};

extern struct sg_client sg_client;

/* Opens the file and takes a slot; once a process. A sentence goes to stderr when it cannot. */
bool sg_attach(void);
/* In a forked child that wants to begin anew (NVML may; CUDA may not). */
void sg_forget_parent(void);

/* The id by which the caller's process namespace knows an owner; 0 if it does not see it. */
uint32_t sg_pid_here(const struct sg_map *map, uint32_t owner);

uint64_t sg_now(void);
uint64_t sg_to_now(uint64_t monotonic_ns);

/* A transaction: the state of all devices, brought up to now. Nothing is seen by others before sg_commit. */
struct sg_state {
    const struct sg_map *map;
    struct sg_core *core;
    struct sg_context *context;
    uint32_t which;
};

struct sg_state sg_begin(void);
/* False within a transaction of this process: exit may have been called by a signal's handler in the middle of it. Then
 * the others see our death, and rob the lock. */
bool sg_begin_at_exit(struct sg_state *state);
void sg_commit(struct sg_state *state);

/* Tells every waiter that something may have come nearer. */
void sg_tell_change(void);
uint32_t sg_change_count(void);
/* Sleeps until something changed since `seen`, at most `simulated_ns` (and never above a look's interval). */
void sg_sleep(uint32_t seen, uint64_t simulated_ns);

static inline uint32_t sg_owner_slot(uint32_t owner) {
    return (owner & 0x3FFu) - 1;
}

#endif
