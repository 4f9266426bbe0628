/* Messages between two ranks, and groups of messages and collectives. */
#include <string.h>

#include "nccl/nccl.h"

#define MOST_OPERATIONS 512

int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclSend(const void *buffer, size_t count, int type, int peer, struct comm *comm, CUstream stream);
int ncclRecv(void *buffer, size_t count, int type, int peer, struct comm *comm, CUstream stream);

enum kind { SEND, RECEIVE, COLLECTIVE };

struct entry {
    enum kind kind;
    struct comm *comm;
    CUcontext context; /* that of the call: a group may have ranks on several devices, and its end knows of one only */
    CUstream stream;
    void *buffer; /* of a message */
    size_t bytes;
    int peer;
    struct collective what; /* of a collective */
    uint64_t turn;
    bool moves;
};

static _Thread_local int depth;
static _Thread_local struct entry entries[MOST_OPERATIONS];
static _Thread_local struct comm *new_comms[MOST_RANKS];
static _Thread_local int entry_count, new_comm_count;

bool group_is_open(void) {
    return depth > 0;
}

void group_add_comm(struct comm *comm) {
    if (new_comm_count < MOST_RANKS)
        new_comms[new_comm_count++] = comm;
}

/* The kernel of all messages in a stream: with one other rank a pair's, with more of them everybody's. */
static int launch_messages(const struct entry *first) {
    struct meeting *meeting = &first->comm->pairs[first->peer];
    uint64_t bytes = 0;
    for (int i = 0; i < entry_count; i++) {
        const struct entry *one = &entries[i];
        if (one->kind == COLLECTIVE || one->comm != first->comm || one->stream != first->stream)
            continue;
        bytes += one->bytes;
        if (one->peer != first->peer)
            meeting = &first->comm->all;
    }
    return meeting_launch(meeting, first->stream, bytes);
}

static bool is_first_message_of_its_stream(int index) {
    for (int i = 0; i < index; i++)
        if (entries[i].kind != COLLECTIVE && entries[i].comm == entries[index].comm &&
            entries[i].stream == entries[index].stream)
            return false;
    return true;
}

static bool publish(struct entry *one) {
    struct comm *comm = one->comm;
    if (one->kind == COLLECTIVE)
        return collective_publish(comm, &one->what, one->stream, &one->turn, &one->moves);
    one->moves = one->bytes > 0 && one->bytes <= MOST_BYTES && !is_capturing(one->stream);
    if (!one->moves || one->kind == RECEIVE)
        return true;
    return shared_send(comm->shared, comm->rank, one->peer, comm->sent[one->peer]++, one->buffer, one->bytes);
}

static int launch(int index) {
    const struct entry *one = &entries[index];
    if (driver.cuCtxSetCurrent(one->context) != CUDA_SUCCESS)
        return UNHANDLED_CUDA_ERROR;
    if (one->kind == COLLECTIVE)
        return collective_launch(one->comm, &one->what, one->stream);
    return is_first_message_of_its_stream(index) ? launch_messages(one) : SUCCESS;
}

static bool take(const struct entry *one) {
    struct comm *comm = one->comm;
    if (!one->moves || one->kind == SEND)
        return true;
    if (one->kind == COLLECTIVE)
        return collective_combine(comm, &one->what, one->turn);
    return shared_receive(comm->shared, one->peer, comm->rank, comm->got[one->peer]++, one->buffer, one->bytes);
}

/* First everything is published, then launched, then taken: so no rank waits for one that waits for it. */
static int run(void) {
    CUcontext before = NULL;
    int result = SUCCESS;
    driver.cuCtxGetCurrent(&before);
    for (int i = 0; result == SUCCESS && i < entry_count; i++)
        result = publish(&entries[i]) ? SUCCESS : SYSTEM_ERROR;
    for (int i = 0; result == SUCCESS && i < entry_count; i++)
        result = launch(i);
    driver.cuCtxSetCurrent(before);
    for (int i = 0; result == SUCCESS && i < entry_count; i++)
        result = take(&entries[i]) ? SUCCESS : SYSTEM_ERROR;
    entry_count = 0;
    return result;
}

int ncclGroupStart(void) {
    depth++;
    return SUCCESS;
}

int ncclGroupEnd(void) {
    if (depth == 0)
        return INVALID_USAGE;
    if (--depth > 0)
        return SUCCESS;
    for (int i = 0; i < new_comm_count; i++)
        if (!shared_wait_for_all(new_comms[i]->shared))
            return SYSTEM_ERROR;
    new_comm_count = 0;
    return run();
}

static int add(struct entry entry) {
    if (entry_count == MOST_OPERATIONS)
        return INVALID_USAGE;
    if (driver.cuCtxGetCurrent(&entry.context) != CUDA_SUCCESS || !entry.context)
        return UNHANDLED_CUDA_ERROR;
    entries[entry_count++] = entry;
    return depth == 0 ? run() : SUCCESS;
}

int collective_add(struct comm *comm, const struct collective *what, CUstream stream) {
    bool is_known = type_bytes(what->type) && what->operation >= SUM && what->operation <= AVG;
    if (!comm || !is_known || what->root >= comm->ranks)
        return INVALID_ARGUMENT;
    return add((struct entry){.kind = COLLECTIVE, .comm = comm, .stream = stream, .what = *what});
}

static int add_message(enum kind kind, void *buffer, size_t count, int type, int peer, struct comm *comm,
                       CUstream stream) {
    if (!comm || peer < 0 || peer >= comm->ranks || !type_bytes(type))
        return INVALID_ARGUMENT;
    size_t bytes = count * type_bytes(type);
    return add((struct entry){
        .kind = kind, .comm = comm, .stream = stream, .buffer = buffer, .bytes = bytes, .peer = peer});
}

int ncclSend(const void *buffer, size_t count, int type, int peer, struct comm *comm, CUstream stream) {
    return add_message(SEND, (void *)(uintptr_t)buffer, count, type, peer, comm, stream);
}

int ncclRecv(void *buffer, size_t count, int type, int peer, struct comm *comm, CUstream stream) {
    return add_message(RECEIVE, buffer, count, type, peer, comm, stream);
}
