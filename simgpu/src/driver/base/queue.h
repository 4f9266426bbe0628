/* The queues of contexts: how work gets into a queue, and how a thread waits for it. */
#ifndef SIMGPU_QUEUE_H
#define SIMGPU_QUEUE_H

#include "objects.h"

/* Puts an operation into the queue of the stream, and fills in stamp and order. Waits for room if 1,024 are in flight. */
CUresult sg_push(CUstream stream, const struct sg_op *op, uint64_t *sequence, struct sg_stamp *stamp);
CUresult sg_wait_for(CUcontext context, uint32_t channel, uint64_t sequence);
bool sg_has_ended(CUcontext context, uint32_t channel, uint64_t sequence);
CUresult sg_wait_stream(CUstream stream);
CUresult sg_wait_context(CUcontext context);

struct sg_stamp *sg_new_stamp(void);
void sg_release_stamp(struct sg_stamp *stamp);
/* The moment when the operation of the event ended, or 0. */
uint64_t sg_read_stamp(CUcontext context, uint32_t channel, uint64_t sequence, struct sg_stamp *stamp);

#endif
