/* This process as a client of the shared file: its settings, its map, its clock. */
#ifndef SIMGPU_CLIENT_H
#define SIMGPU_CLIENT_H

#include "locks.h"
#include "shared/file/file.h"

struct sg_client {
    struct sg_map map;
    struct sg_settings settings;
    bool attached, forked;
    struct sg_mutex transaction; /* one thread of a process at a time */
};

extern struct sg_client sg_client;

/* Opens the file and takes a slot, once in a process. If it cannot, it writes a sentence to stderr. */
bool sg_attach(void);
/* For a forked child that begins again (NVML allows it, CUDA does not). */
void sg_forget_parent(void);

uint64_t sg_now(void);
uint64_t sg_to_now(uint64_t monotonic_ns);

#endif
