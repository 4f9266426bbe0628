/* Collectives: one kernel for all ranks; small messages move their data, too. */
#include <string.h>

#include "nccl/nccl.h"

int ncclAllReduce(const void *given, void *got, size_t count, int type, int operation, struct comm *comm,
                  CUstream stream);
int ncclReduce(const void *given, void *got, size_t count, int type, int operation, int root, struct comm *comm,
               CUstream stream);
int ncclBroadcast(const void *given, void *got, size_t count, int type, int root, struct comm *comm, CUstream stream);
int ncclBcast(void *buffer, size_t count, int type, int root, struct comm *comm, CUstream stream);
int ncclAllGather(const void *given, void *got, size_t count, int type, struct comm *comm, CUstream stream);
int ncclReduceScatter(const void *given, void *got, size_t count, int type, int operation, struct comm *comm,
                      CUstream stream);

bool is_capturing(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static size_t bytes_of(const struct collective *what) {
    return what->count * type_bytes(what->type);
}

/* The software GPU's memory can be read and written by the host of its process. */
bool collective_publish(struct comm *comm, const struct collective *what, CUstream stream, uint64_t *turn,
                        bool *moves) {
    *moves = bytes_of(what) > 0 && bytes_of(what) <= MOST_BYTES && !is_capturing(stream);
    if (!*moves)
        return true;
    *turn = comm->turn++;
    return shared_publish(comm->shared, comm->rank, *turn, what->given, bytes_of(what));
}

int collective_launch(struct comm *comm, const struct collective *what, CUstream stream) {
    return meeting_launch(&comm->all, stream, bytes_of(what) * (uint64_t)(comm->ranks - 1));
}

bool collective_combine(struct comm *comm, const struct collective *what, uint64_t turn) {
    const void *of_rank[MOST_RANKS];
    for (int rank = 0; rank < comm->ranks; rank++) {
        of_rank[rank] = shared_find(comm->shared, rank, turn);
        if (!of_rank[rank])
            return false;
    }
    what->combine(comm, what, of_rank);
    shared_consumed(comm->shared, comm->rank, turn);
    return true;
}

static void reduced(struct comm *comm, const struct collective *what, const void *const *of_rank, size_t offset,
                    size_t count) {
    size_t at = offset * type_bytes(what->type);
    memmove(what->got, (const char *)of_rank[0] + at, count * type_bytes(what->type));
    for (int rank = 1; rank < comm->ranks; rank++)
        reduce(what->got, (const char *)of_rank[rank] + at, count, what->type, what->operation);
    if (what->operation == AVG)
        divide(what->got, count, what->type, comm->ranks);
}

static void all_reduce(struct comm *comm, const struct collective *what, const void *const *of_rank) {
    if (what->root < 0 || what->root == comm->rank)
        reduced(comm, what, of_rank, 0, what->count);
}

static void reduce_scatter(struct comm *comm, const struct collective *what, const void *const *of_rank) {
    size_t share = what->count / (size_t)comm->ranks;
    reduced(comm, what, of_rank, share * (size_t)comm->rank, share);
}

static void broadcast(struct comm *comm, const struct collective *what, const void *const *of_rank) {
    (void)comm;
    memmove(what->got, of_rank[what->root], what->count * type_bytes(what->type));
}

static void all_gather(struct comm *comm, const struct collective *what, const void *const *of_rank) {
    size_t bytes = what->count * type_bytes(what->type);
    for (int rank = 0; rank < comm->ranks; rank++)
        memmove((char *)what->got + bytes * (size_t)rank, of_rank[rank], bytes);
}

int ncclAllReduce(const void *given, void *got, size_t count, int type, int operation, struct comm *comm,
                  CUstream stream) {
    struct collective what = {given, got, count, type, operation, -1, all_reduce};
    return collective_add(comm, &what, stream);
}

int ncclReduce(const void *given, void *got, size_t count, int type, int operation, int root, struct comm *comm,
               CUstream stream) {
    struct collective what = {given, got, count, type, operation, root, all_reduce};
    return collective_add(comm, &what, stream);
}

int ncclBroadcast(const void *given, void *got, size_t count, int type, int root, struct comm *comm, CUstream stream) {
    /* only the root's bytes are read, but all publish something of that length */
    struct collective what = {comm->rank == root ? given : got, got, count, type, SUM, root, broadcast};
    return collective_add(comm, &what, stream);
}

int ncclBcast(void *buffer, size_t count, int type, int root, struct comm *comm, CUstream stream) {
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

int ncclAllGather(const void *given, void *got, size_t count, int type, struct comm *comm, CUstream stream) {
    struct collective what = {given, got, count, type, SUM, -1, all_gather};
    return collective_add(comm, &what, stream);
}

int ncclReduceScatter(const void *given, void *got, size_t count, int type, int operation, struct comm *comm,
                      CUstream stream) {
    struct collective what = {given, got, count * (size_t)comm->ranks, type, operation, -1, reduce_scatter};
    return collective_add(comm, &what, stream);
}
