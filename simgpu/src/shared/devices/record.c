/* Appends to the record.
 *
 * An entry counts only when the core's counter has passed it, and the counter flips with the transaction: what a killed
 * process half wrote is overwritten by the next.  Nothing is written when work is submitted, only when it is executed.
 */
#include "record.h"

#include <string.h>

#include "paging.h"
#include "shared/file/slots.h"

void sg_record_close(struct sg_state *state, uint32_t device) {
    struct sg_device *gpu = &state->core->device[device];
    if (gpu->open.serial == 0)
        return;
    uint64_t entries = state->map->header->physics.record_entries;
    sg_intervals_at(state->map, device)[gpu->intervals++ % entries] = gpu->open;
    gpu->open = (struct sg_interval){0};
}

void sg_record_execution(struct sg_state *state, uint32_t context, uint64_t from_ns, uint64_t to_ns) {
    const struct sg_context *who = &state->context[context];
    struct sg_device *gpu = &state->core->device[who->device];
    if (gpu->open.serial != who->serial || gpu->open.end_ns != from_ns) {
        sg_record_close(state, who->device);
        gpu->open = (struct sg_interval){.start_ns = from_ns, .serial = who->serial};
    }
    gpu->open.end_ns = to_ns;
    gpu->busy_ns += to_ns - from_ns;
    state->context[context].busy_ns += to_ns - from_ns;
}

void sg_record_kernel_end(struct sg_state *state, uint32_t context) {
    struct sg_context *who = &state->context[context];
    struct sg_device *gpu = &state->core->device[who->device];
    who->kernels++;
    if (gpu->open.serial == who->serial)
        gpu->open.kernels++;
}

void sg_record_residency(struct sg_state *state, uint32_t context) {
    struct sg_context *who = &state->context[context];
    struct sg_device *gpu = &state->core->device[who->device];
    uint64_t entries = state->map->header->physics.record_entries;
    who->said_resident = sg_resident(who);
    sg_residency_at(state->map, who->device)[gpu->residencies++ % entries] = (struct sg_residency){
        .at_ns = state->core->now_ns,
        .serial = who->serial,
        .device = who->device,
        .resident_bytes = (uint64_t)who->said_resident,
        .managed_bytes = (uint64_t)who->managed_bytes,
        .plain_bytes = who->plain_bytes,
    };
}

static struct sg_cast *cast_of(const struct sg_state *state, uint32_t context) {
    return &state->map->cast[state->context[context].serial % SG_CAST];
}

void sg_record_birth(struct sg_state *state, uint32_t context) {
    const struct sg_context *who = &state->context[context];
    const struct sg_slot *slot = &state->map->slots[sg_owner_slot(who->owner)];
    struct sg_cast *cast = cast_of(state, context);
    *cast = (struct sg_cast){
        .serial = who->serial,
        .device = who->device,
        .pid = slot->pid,
        .slot = sg_owner_slot(who->owner),
        .born_ns = state->core->now_ns,
    };
    memcpy(cast->label, slot->label, sizeof cast->label);
}

void sg_record_death(struct sg_state *state, uint32_t context) {
    struct sg_cast *cast = cast_of(state, context);
    if (cast->serial != state->context[context].serial)
        return;
    cast->died_ns = state->core->now_ns;
    cast->busy_ns = state->context[context].busy_ns;
    cast->kernels = state->context[context].kernels;
}
