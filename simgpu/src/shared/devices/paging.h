/* Memory of a device: what is resident, who is paged out first, what a touch costs. Pure. */
#ifndef SIMGPU_PAGING_H
#define SIMGPU_PAGING_H

#include "state.h"

double sg_resident(const struct sg_context *context);
/* Bytes nobody has, not even as a pageable guest. */
double sg_free_bytes(const struct sg_state *state, uint32_t device);
/* Bytes that cannot be paged: plain allocations and contexts. */
double sg_unpageable_bytes(const struct sg_state *state, uint32_t device);

/* Makes room by paging out, least recently touched first. */
void sg_make_room(struct sg_state *state, uint32_t device, double bytes);

/* Room for bytes that do not page: true when they fit beside what is unpageable already (others' managed bytes yield). */
bool sg_reserve_unpageable(struct sg_state *state, uint32_t device, double bytes);

/* How a context's work goes on now: `slowdown` wall ns per compute ns, unchanged for `stretch_ns` of wall time. */
struct sg_pace {
    double slowdown, stretch_ns;
};
struct sg_pace sg_pace_of(const struct sg_state *state, uint32_t context);

/* The context has computed for that long: it has touched its share of its managed bytes. */
void sg_touch(struct sg_state *state, uint32_t context, double compute_ns);
/* Brings bytes in without touching order (prefetch, copies to the device); returns the bytes that had to be moved. */
double sg_bring_in(struct sg_state *state, uint32_t context, double bytes);
void sg_send_out(struct sg_state *state, uint32_t context, double bytes);
void sg_forget_managed(struct sg_state *state, uint32_t context, double bytes);

#endif
