/* Communicators: ranks meet in a file of shared memory that the unique id names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl/nccl.h"

int ncclGetVersion(int *version);
int ncclGetUniqueId(struct id *id);
int ncclCommInitRank(struct comm **comm, int ranks, struct id id, int rank);
int ncclCommInitRankConfig(struct comm **comm, int ranks, struct id id, int rank, void *config);
int ncclCommInitRankScalable(struct comm **comm, int ranks, int rank, int ids, struct id *id, void *config);
int ncclCommInitAll(struct comm **comms, int count, const int *devices);
int ncclCommFinalize(struct comm *comm);
int ncclCommDestroy(struct comm *comm);
int ncclCommAbort(struct comm *comm);
int ncclCommGetAsyncError(struct comm *comm, int *error);
int ncclCommCount(const struct comm *comm, int *count);
int ncclCommCuDevice(const struct comm *comm, int *device);
int ncclCommUserRank(const struct comm *comm, int *rank);
int ncclCommRegister(const struct comm *comm, void *buffer, size_t bytes, void **handle);
int ncclCommDeregister(const struct comm *comm, void *handle);
int ncclMemAlloc(void **pointer, size_t bytes);
int ncclMemFree(void *pointer);
const char *ncclGetErrorString(int status);
const char *ncclGetLastError(struct comm *comm);

int ncclGetVersion(int *version) {
    *version = 23007;
    return SUCCESS;
}

/* The name of a file that nobody has yet: this process and the moment. */
int ncclGetUniqueId(struct id *id) {
    static uint32_t made;
    uint64_t random = 0;
    FILE *source = fopen("/dev/urandom", "rbe");
    if (!source)
        return SYSTEM_ERROR;
    size_t got = fread(&random, sizeof random, 1, source);
    fclose(source);
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "%08x%08x", (uint32_t)random ^ __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED),
             (uint32_t)getpid());
    return got == 1 ? SUCCESS : SYSTEM_ERROR;
}

static struct comm *make(int ranks, const struct id *id, int rank) {
    char name[64];
    struct comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return NULL;
    comm->rank = rank;
    comm->ranks = ranks;
    memcpy(comm->id, id->bytes, sizeof comm->id - 1);
    snprintf(name, sizeof name, "/nccl-standin-%s", comm->id);
    comm->shared = shared_open(name, ranks);
    if (!comm->shared) {
        free(comm);
        return NULL;
    }
    meeting_name(&comm->all, comm->id, "all", ranks);
    for (int peer = 0; peer < ranks; peer++) {
        char kind[32];
        snprintf(kind, sizeof kind, "p%d_%d", peer < rank ? peer : rank, peer < rank ? rank : peer);
        meeting_name(&comm->pairs[peer], comm->id, kind, peer == rank ? 1 : 2);
    }
    return comm;
}

int ncclCommInitRankConfig(struct comm **comm, int ranks, struct id id, int rank, void *config) {
    CUdevice device;
    (void)config;
    if (ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks)
        return INVALID_ARGUMENT;
    if (driver_load() != CUDA_SUCCESS || driver.cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return UNHANDLED_CUDA_ERROR;
    *comm = make(ranks, &id, rank);
    if (!*comm)
        return SYSTEM_ERROR;
    (*comm)->device = device;
    shared_join((*comm)->shared);
    if (group_is_open()) {
        group_add_comm(*comm); /* one thread may make several ranks: its group's end waits */
        return SUCCESS;
    }
    return shared_wait_for_all((*comm)->shared) ? SUCCESS : SYSTEM_ERROR;
}

int ncclCommInitRank(struct comm **comm, int ranks, struct id id, int rank) {
    return ncclCommInitRankConfig(comm, ranks, id, rank, NULL);
}

int ncclCommInitRankScalable(struct comm **comm, int ranks, int rank, int ids, struct id *id, void *config) {
    return ids == 1 ? ncclCommInitRankConfig(comm, ranks, *id, rank, config) : INVALID_ARGUMENT;
}

/* One process, a rank a device. */
int ncclCommInitAll(struct comm **comms, int count, const int *devices) {
    struct id id;
    if (count < 1 || count > MOST_RANKS)
        return INVALID_ARGUMENT;
    if (driver_load() != CUDA_SUCCESS)
        return UNHANDLED_CUDA_ERROR;
    int result = ncclGetUniqueId(&id);
    for (int rank = 0; result == SUCCESS && rank < count; rank++) {
        comms[rank] = make(count, &id, rank);
        if (!comms[rank])
            return SYSTEM_ERROR;
        comms[rank]->device = devices ? devices[rank] : rank;
        shared_join(comms[rank]->shared);
    }
    return result;
}

int ncclCommFinalize(struct comm *comm) {
    return comm ? SUCCESS : INVALID_ARGUMENT;
}

int ncclCommDestroy(struct comm *comm) {
    if (comm) {
        shared_close(comm->shared);
        free(comm);
    }
    return SUCCESS;
}

int ncclCommAbort(struct comm *comm) {
    return ncclCommDestroy(comm);
}

int ncclCommGetAsyncError(struct comm *comm, int *error) {
    *error = SUCCESS;
    return comm ? SUCCESS : INVALID_ARGUMENT;
}

int ncclCommCount(const struct comm *comm, int *count) {
    *count = comm->ranks;
    return SUCCESS;
}

int ncclCommCuDevice(const struct comm *comm, int *device) {
    *device = comm->device;
    return SUCCESS;
}

int ncclCommUserRank(const struct comm *comm, int *rank) {
    *rank = comm->rank;
    return SUCCESS;
}

int ncclCommRegister(const struct comm *comm, void *buffer, size_t bytes, void **handle) {
    (void)comm, (void)bytes;
    *handle = buffer;
    return SUCCESS;
}

int ncclCommDeregister(const struct comm *comm, void *handle) {
    (void)comm, (void)handle;
    return SUCCESS;
}

int ncclMemAlloc(void **pointer, size_t bytes) {
    if (driver_load() != CUDA_SUCCESS)
        return UNHANDLED_CUDA_ERROR;
    return driver.cuMemAlloc((CUdeviceptr *)pointer, bytes) == CUDA_SUCCESS ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

int ncclMemFree(void *pointer) {
    return driver.cuMemFree((CUdeviceptr)(uintptr_t)pointer) == CUDA_SUCCESS ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

const char *ncclGetErrorString(int status) {
    return status == SUCCESS ? "no error" : "a stand-in's error";
}

const char *ncclGetLastError(struct comm *comm) {
    (void)comm;
    return "";
}
