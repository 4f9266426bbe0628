#define _GNU_SOURCE
#include "shared.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 32u
#define PATIENCE_SECONDS 120

struct box {
    _Atomic uint64_t written, read; /* counts of messages */
    char bytes[SLOTS][MOST_BYTES];
};

struct file {
    _Atomic int joined;
    _Atomic uint64_t consumed[MOST_RANKS]; /* of collectives: how many each rank has read */
    struct box collective[MOST_RANKS];
    struct box between[MOST_RANKS][MOST_RANKS];
};

struct shared {
    struct file *file;
    int ranks;
    char name[64];
};

struct shared *shared_open(const char *name, int ranks) {
    struct shared *shared = calloc(1, sizeof *shared);
    if (!shared || ranks < 1 || ranks > MOST_RANKS) {
        free(shared);
        return NULL;
    }
    shared->ranks = ranks;
    snprintf(shared->name, sizeof shared->name, "%s", name);
    int file = shm_open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0 && ftruncate(file, sizeof *shared->file) == 0)
        shared->file = mmap(NULL, sizeof *shared->file, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    if (!shared->file || shared->file == MAP_FAILED) {
        free(shared);
        return NULL;
    }
    return shared;
}

void shared_close(struct shared *shared) {
    munmap(shared->file, sizeof *shared->file);
    free(shared);
}

void shared_join(struct shared *shared) {
    if (atomic_fetch_add(&shared->file->joined, 1) + 1 == shared->ranks)
        shm_unlink(shared->name);
}

/* Wait until a counter is at least so large; false where it is not in time. */
static bool wait_for(_Atomic uint64_t *counter, uint64_t least) {
    struct timespec pause = {.tv_nsec = 50000};
    for (long tries = 0; atomic_load(counter) < least; tries++) {
        if (tries > PATIENCE_SECONDS * 20000l)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

bool shared_wait_for_all(struct shared *shared) {
    struct timespec pause = {.tv_nsec = 1000000};
    for (long tries = 0; atomic_load(&shared->file->joined) < shared->ranks; tries++) {
        if (tries > PATIENCE_SECONDS * 1000l)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

bool shared_publish(struct shared *shared, int rank, uint64_t turn, const void *bytes, size_t count) {
    struct box *box = &shared->file->collective[rank];
    for (int other = 0; turn >= SLOTS && other < shared->ranks; other++)
        if (!wait_for(&shared->file->consumed[other], turn - SLOTS + 1))
            return false;
    memcpy(box->bytes[turn % SLOTS], bytes, count);
    atomic_store(&box->written, turn + 1);
    return true;
}

const void *shared_find(struct shared *shared, int rank, uint64_t turn) {
    struct box *box = &shared->file->collective[rank];
    return wait_for(&box->written, turn + 1) ? box->bytes[turn % SLOTS] : NULL;
}

void shared_consumed(struct shared *shared, int rank, uint64_t turn) {
    atomic_store(&shared->file->consumed[rank], turn + 1);
}

bool shared_send(struct shared *shared, int from, int to, uint64_t turn, const void *bytes, size_t count) {
    struct box *box = &shared->file->between[from][to];
    if (turn >= SLOTS && !wait_for(&box->read, turn - SLOTS + 1))
        return false;
    memcpy(box->bytes[turn % SLOTS], bytes, count);
    atomic_store(&box->written, turn + 1);
    return true;
}

bool shared_receive(struct shared *shared, int from, int to, uint64_t turn, void *bytes, size_t count) {
    struct box *box = &shared->file->between[from][to];
    if (!wait_for(&box->written, turn + 1))
        return false;
    memcpy(bytes, box->bytes[turn % SLOTS], count);
    atomic_store(&box->read, turn + 1);
    return true;
}
