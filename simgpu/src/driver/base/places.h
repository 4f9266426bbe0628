/* Places in the shared file: the one of a context, and the channels in it that its streams take. */
#ifndef SIMGPU_PLACES_H
#define SIMGPU_PLACES_H

#include "objects.h"
#include "shared/devices/state.h"

/* The context's place in the state, or NULL when it has none any more. */
struct sg_context *sg_place_of(const struct sg_state *state, CUcontext context);
CUresult sg_add_context(CUcontext context);
void sg_remove_context(CUcontext context);
bool sg_remove_context_at_exit(CUcontext context);

/* A context's first stream is its legacy one; the others share the other channels in turn. */
CUstream sg_new_stream(CUcontext context, unsigned flags, int priority);

#endif
