/* Enters contexts and their channels into the shared state, and takes them out. */
#include "places.h"

#include <string.h>

#include "shared/devices/paging.h"
#include "shared/devices/record.h"
#include "shared/devices/timeline.h"
#include "shared/process/changes.h"
#include "shared/process/client.h"
#include "shared/process/transaction.h"

static _Atomic uint64_t next_stream_id = 1;

struct sg_context *sg_place_of(const struct sg_state *state, CUcontext context) {
    struct sg_context *place = &state->context[context->index];
    return sg_in_use(state->core, context->index) && place->serial == context->serial ? place : NULL;
}

static int find_free(const struct sg_core *core) {
    for (int i = 0; i < SG_CONTEXTS; i++)
        if (!sg_in_use(core, (uint32_t)i))
            return i;
    return -1;
}

static void fill_context(struct sg_state *state, uint32_t index, CUcontext context) {
    struct sg_context *fresh = &state->context[index];
    memset(fresh, 0, sizeof *fresh);
    fresh->serial = state->core->next_serial++;
    fresh->owner = sg_client.map.owner;
    fresh->device = context->device;
    fresh->channels = 1;
    fresh->checked_ns = state->core->now_ns;
    for (uint32_t channel = 0; channel < SG_CHANNELS; channel++)
        atomic_store(sg_tail_at(state->map, index, channel), 0);
    state->core->used[index / 64] |= 1ull << (index % 64);
    context->index = index;
    context->serial = fresh->serial;
    sg_record_birth(state, index);
}

CUresult sg_add_context(CUcontext context) {
    struct sg_state state = sg_begin();
    int index = find_free(state.core);
    bool fits = index >= 0 &&
                sg_reserve_unpageable(&state, context->device, (double)state.map->header->physics.overhead_bytes);
    if (fits)
        fill_context(&state, (uint32_t)index, context);
    sg_commit(&state);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void remove_and_commit(struct sg_state *state, CUcontext context) {
    if (sg_place_of(state, context))
        sg_drop_context(state, context->index);
    sg_commit(state);
    sg_tell_change();
}

void sg_remove_context(CUcontext context) {
    struct sg_state state = sg_begin();
    remove_and_commit(&state, context);
}

bool sg_remove_context_at_exit(CUcontext context) {
    struct sg_state state;
    if (!sg_begin_at_exit(&state))
        return false;
    remove_and_commit(&state, context);
    return true;
}

/* ---- streams and their channels */

static CUresult use_channel(CUcontext context, uint32_t channel) {
    struct sg_state state = sg_begin();
    struct sg_context *place = sg_place_of(&state, context);
    if (place && place->channels <= channel) {
        memset(&place->channel[place->channels], 0, (channel + 1 - place->channels) * sizeof place->channel[0]);
        place->channels = channel + 1;
    }
    sg_commit(&state);
    return place ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

int sg_clamp_priority(int priority) {
    if (priority < SG_GREATEST_PRIORITY)
        return SG_GREATEST_PRIORITY;
    return priority > SG_LEAST_PRIORITY ? SG_LEAST_PRIORITY : priority;
}

CUstream sg_new_stream(CUcontext context, unsigned flags, int priority) {
    CUstream stream = sg_new_handle(SG_STREAM_HANDLE, sizeof *stream);
    if (!stream)
        return NULL;
    sg_lock(&context->lock);
    bool first = context->legacy == NULL;
    stream->context = context;
    stream->legacy = first;
    stream->channel = first ? 0 : 1 + context->next_channel++ % (SG_CHANNELS - 1);
    stream->flags = flags;
    stream->priority = priority;
    stream->id = atomic_fetch_add(&next_stream_id, 1);
    stream->next = context->streams;
    context->streams = stream;
    sg_unlock(&context->lock);
    if (!first && use_channel(context, stream->channel) != CUDA_SUCCESS)
        return NULL;
    return stream;
}
