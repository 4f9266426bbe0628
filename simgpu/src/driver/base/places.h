/* Places in the shared file: each context has a place, and its streams take channels in that place. */
#ifndef SIMGPU_PLACES_H
#define SIMGPU_PLACES_H

#include "objects.h"
#include "shared/devices/state.h"

/* The place of the context in the state, or NULL when it has no place any more. */
struct sg_context *sg_place_of(const struct sg_state *state, CUcontext context);
CUresult sg_add_context(CUcontext context);
void sg_remove_context(CUcontext context);
bool sg_remove_context_at_exit(CUcontext context);

/* The first stream of a context is its legacy stream. The others share the other channels in turn. */
CUstream sg_new_stream(CUcontext context, unsigned flags, int priority);

#define SG_LEAST_PRIORITY 0
#define SG_GREATEST_PRIORITY (-5)
int sg_clamp_priority(int priority);

#endif
