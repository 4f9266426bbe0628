/* The memory of a device: which bytes are resident, which are paged out first, and the cost of a touch. Pure. */
#ifndef SIMGPU_PAGING_H
#define SIMGPU_PAGING_H

#include "state.h"

double sg_resident(const struct sg_context *context);
/* The managed bytes that were on the device and are in the host's memory now. */
double sg_paged_out(const struct sg_context *context);
/* The bytes that no context has, not even as pageable bytes. */
double sg_free_bytes(const struct sg_state *state, uint32_t device);
/* The bytes that cannot be paged: plain allocations and contexts. */
double sg_unpageable_bytes(const struct sg_state *state, uint32_t device);

/* Makes room by paging out bytes, the least recently touched first. */
void sg_make_room(struct sg_state *state, uint32_t device, double bytes);

/* Makes room for bytes that do not page. True when they fit together with the unpageable bytes; managed bytes of others
 * are paged out. */
bool sg_reserve_unpageable(struct sg_state *state, uint32_t device, double bytes);

/* The speed of a context's work now: `slowdown` wall ns for each compute ns, unchanged for `stretch_ns` of wall time. */
struct sg_pace {
    double slowdown, stretch_ns;
};
struct sg_pace sg_pace_of(const struct sg_state *state, uint32_t context);

/* Counts that the context has computed for this long: it has touched the corresponding share of its managed bytes. */
void sg_touch(struct sg_state *state, uint32_t context, double compute_ns);
/* Brings bytes in and does not change the order of touches (prefetch, copies to the device); returns the moved bytes. */
double sg_bring_in(struct sg_state *state, uint32_t context, double bytes);
/* Counts that a copy has touched so many managed bytes, `fresh` of them for the first time; returns the moved bytes. */
double sg_touch_copied(struct sg_state *state, uint32_t context, double bytes, double fresh);
void sg_send_out(struct sg_state *state, uint32_t context, double bytes);
void sg_forget_managed(struct sg_state *state, uint32_t context, double bytes);

#endif
