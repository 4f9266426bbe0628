/* The record: which context executed when, and which context was resident when.
 *
 * The rule: entries are appended only inside a transaction. */
#ifndef SIMGPU_RECORD_H
#define SIMGPU_RECORD_H

#include "state.h"

void sg_record_execution(struct sg_state *state, uint32_t context, uint64_t from_ns, uint64_t to_ns);
void sg_record_kernel_end(struct sg_state *state, uint32_t context);
void sg_record_close(struct sg_state *state, uint32_t device);
void sg_record_residency(struct sg_state *state, uint32_t context);
void sg_record_birth(struct sg_state *state, uint32_t context);
void sg_record_death(struct sg_state *state, uint32_t context);

#endif
