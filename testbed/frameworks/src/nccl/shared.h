/* What the ranks of a communicator share: a file in shared memory in which they meet and pass small messages on.
 *
 * Kernels compute nothing, so data that flows must be moved by the host.  Messages of at most MOST_BYTES are: a rank
 * publishes its own bytes when it submits the collective, and its call waits until the others have published theirs.
 * NVIDIA's calls do not wait; larger messages here do not either, and move no data.
 */
#ifndef STANDIN_NCCL_SHARED_H
#define STANDIN_NCCL_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_BYTES 65536u
#define MOST_RANKS 16

struct shared;

/* Map the file of this name, for so many ranks; NULL where it cannot be made. */
struct shared *shared_open(const char *name, int ranks);
void shared_close(struct shared *shared);

/* Say that a rank is here; wait for all of them.  The last one removes the file's name. */
void shared_join(struct shared *shared);
bool shared_wait_for_all(struct shared *shared);

/* Message number `turn` of a collective: publish this rank's bytes; find another rank's, once it has published them. */
bool shared_publish(struct shared *shared, int rank, uint64_t turn, const void *bytes, size_t count);
const void *shared_find(struct shared *shared, int rank, uint64_t turn);
void shared_consumed(struct shared *shared, int rank, uint64_t turn);

/* Message number `turn` from one rank to another. */
bool shared_send(struct shared *shared, int from, int to, uint64_t turn, const void *bytes, size_t count);
bool shared_receive(struct shared *shared, int from, int to, uint64_t turn, void *bytes, size_t count);

#endif
