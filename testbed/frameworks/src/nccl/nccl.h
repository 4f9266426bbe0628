/* The stand-in for NCCL: communicators, collectives, messages, groups.  Prototypes as in nccl.h of NCCL 2.30. */
#ifndef STANDIN_NCCL_H
#define STANDIN_NCCL_H

#include "driver/kernel.h"
#include "nccl/reduce.h"
#include "nccl/shared.h"

enum { SUCCESS = 0, UNHANDLED_CUDA_ERROR = 1, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

struct id {
    char bytes[128];
};

/* What a communicator's kernels are called: all ranks wait for each other, or two of them do. */
struct meeting {
    char name[64];
    struct kernel kernel;
};

struct comm {
    int rank, ranks, device;
    char id[17];
    struct shared *shared;
    uint64_t turn;                              /* of collectives whose data moves */
    uint64_t sent[MOST_RANKS], got[MOST_RANKS]; /* messages whose data moves */
    struct meeting all, pairs[MOST_RANKS];
};

/* One collective: what this rank gives, what it gets, and how the ranks' bytes become that. */
struct collective {
    const void *given;
    void *got;
    size_t count; /* elements that this rank gives */
    int type, operation, root;
    void (*combine)(struct comm *comm, const struct collective *what, const void *const *of_rank);
};

/* Put it into the open group, or run it at once. */
int collective_add(struct comm *comm, const struct collective *what, CUstream stream);

/* Its three parts, in the order in which a group does them for all that is in it. */
bool collective_publish(struct comm *comm, const struct collective *what, CUstream stream, uint64_t *turn, bool *moves);
int collective_launch(struct comm *comm, const struct collective *what, CUstream stream);
bool collective_combine(struct comm *comm, const struct collective *what, uint64_t turn);

/* A kernel that ends when its partners have begun; as long as its bytes need. */
int meeting_launch(struct meeting *meeting, CUstream stream, uint64_t bytes);
void meeting_name(struct meeting *meeting, const char *id, const char *kind, int partners);

/* A graph is being made of the stream: nothing runs now, so no data can move. */
bool is_capturing(CUstream stream);

/* Groups: within one nothing waits.  Its messages in one stream become one kernel at its end, as in NCCL: a rank may
 * send and receive in any order within it. */
bool group_is_open(void);
void group_add_comm(struct comm *comm);

#endif
