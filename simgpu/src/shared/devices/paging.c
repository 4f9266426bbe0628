/* The memory model.
 *
 * A context touches all its managed bytes once every `pass` of computing, always the longest untouched first, as a
 * training loop does.  Bytes not resident are fetched at the paging rate while the kernel stands; room is made by
 * paging out what was touched least recently, whoever it belongs to.  Spans keep bytes by age, oldest first.
 */
#include "paging.h"

#include <string.h>


#define AGES 16.0 /* touches closer together than a pass / 16 count as one age */

double sg_resident(const struct sg_context *context) {
    double sum = 0;
    for (uint32_t i = 0; i < context->spans; i++)
        sum += context->span[i].bytes;
    return sum;
}

double sg_unpageable_bytes(const struct sg_state *state, uint32_t device) {
    double sum = 0;
    for (int i = sg_next_used(state->core, -1); i >= 0; i = sg_next_used(state->core, i))
        if (state->context[i].device == device)
            sum += (double)(state->context[i].plain_bytes + state->map->header->physics.overhead_bytes);
    return sum;
}

double sg_free_bytes(const struct sg_state *state, uint32_t device) {
    double sum = (double)state->map->header->card[device].memory_bytes - sg_unpageable_bytes(state, device);
    for (int i = sg_next_used(state->core, -1); i >= 0; i = sg_next_used(state->core, i))
        if (state->context[i].device == device)
            sum -= sg_resident(&state->context[i]);
    return sum;
}

static void remove_span(struct sg_context *context, uint32_t at) {
    context->spans--;
    memmove(&context->span[at], &context->span[at + 1], (context->spans - at) * sizeof context->span[0]);
}

/* Takes bytes from the oldest span; returns how many it had. */
static double take_oldest(struct sg_context *context, double bytes) {
    if (context->spans == 0)
        return 0;
    double taken = context->span[0].bytes < bytes ? context->span[0].bytes : bytes;
    context->span[0].bytes -= taken;
    if (context->span[0].bytes < 1.0)
        remove_span(context, 0);
    return taken;
}

/* The two neighbours nearest in age become one, of the age between them that their sizes say. */
static void merge_closest(struct sg_context *context) {
    uint32_t at = 0;
    for (uint32_t i = 1; i + 1 < context->spans; i++)
        if (context->span[i + 1].touched_ns - context->span[i].touched_ns <
            context->span[at + 1].touched_ns - context->span[at].touched_ns)
            at = i;
    struct sg_span *older = &context->span[at], *younger = older + 1;
    double part = older->bytes / (older->bytes + younger->bytes);
    younger->touched_ns -= (uint64_t)(part * (double)(younger->touched_ns - older->touched_ns));
    younger->bytes += older->bytes;
    remove_span(context, at);
}

static void add_newest(struct sg_context *context, double bytes, uint64_t now_ns, double age_ns) {
    if (bytes <= 0)
        return;
    struct sg_span *last = context->spans ? &context->span[context->spans - 1] : NULL;
    bool same_age = last && (double)(now_ns - last->touched_ns) < age_ns;
    if (!same_age && context->spans == SG_SPANS)
        merge_closest(context);
    if (!same_age)
        context->span[context->spans++] = (struct sg_span){.touched_ns = now_ns};
    context->span[context->spans - 1].bytes += bytes;
}

static int least_recent(const struct sg_state *state, uint32_t device) {
    int victim = -1;
    for (int i = sg_next_used(state->core, -1); i >= 0; i = sg_next_used(state->core, i)) {
        const struct sg_context *context = &state->context[i];
        if (context->device != device || context->spans == 0)
            continue;
        if (victim < 0 || context->span[0].touched_ns < state->context[victim].span[0].touched_ns)
            victim = i;
    }
    return victim;
}

void sg_make_room(struct sg_state *state, uint32_t device, double bytes) {
    double missing = bytes - sg_free_bytes(state, device);
    while (missing >= 1.0) {
        int victim = least_recent(state, device);
        if (victim < 0)
            return;
        missing -= take_oldest(&state->context[victim], missing);
    }
}

bool sg_reserve_unpageable(struct sg_state *state, uint32_t device, double bytes) {
    double room = (double)state->map->header->card[device].memory_bytes - sg_unpageable_bytes(state, device);
    if (bytes > room)
        return false;
    sg_make_room(state, device, bytes);
    return true;
}

double sg_paged_out(const struct sg_context *context) {
    double bytes = context->managed_bytes - context->virgin_bytes - sg_resident(context);
    return bytes > 1.0 ? bytes : 0;
}

struct sg_pace sg_pace_of(const struct sg_state *state, uint32_t context) {
    const struct sg_context *who = &state->context[context];
    const struct sg_physics *physics = &state->map->header->physics;
    double absent = sg_paged_out(who), compute_ns_per_byte = (double)physics->pass_ns / (who->managed_bytes + 1.0);
    if (who->managed_bytes < 1.0 || (who->virgin_bytes < 1.0 && absent < 1.0))
        return (struct sg_pace){1.0, 1e18};
    if (who->virgin_bytes >= 1.0)
        return (struct sg_pace){1.0, who->virgin_bytes * compute_ns_per_byte + 1.0};
    double slowdown = (compute_ns_per_byte + 1e9 / (double)physics->page_bytes_per_s) / compute_ns_per_byte;
    return (struct sg_pace){slowdown, absent * compute_ns_per_byte * slowdown + 1.0};
}

static double age_of(const struct sg_state *state) {
    return (double)state->map->header->physics.pass_ns / AGES;
}

/* Bytes that were not on the device come onto it, fresh. */
static void admit(struct sg_state *state, uint32_t context, double bytes) {
    sg_make_room(state, state->context[context].device, bytes);
    add_newest(&state->context[context], bytes, state->core->now_ns, age_of(state));
}

static double least(double one, double other) {
    return one < other ? one : other;
}

static void renew_oldest(struct sg_state *state, uint32_t context, double bytes) {
    struct sg_context *who = &state->context[context];
    bytes = least(bytes, sg_resident(who));
    double renewed = 0;
    while (bytes - renewed >= 1.0 && who->spans) {
        double taken = take_oldest(who, bytes - renewed);
        renewed += taken;
    }
    add_newest(who, renewed, state->core->now_ns, age_of(state));
}

void sg_touch(struct sg_state *state, uint32_t context, double compute_ns) {
    struct sg_context *who = &state->context[context];
    if (who->managed_bytes < 1.0)
        return;
    double touched = who->managed_bytes * compute_ns / (double)state->map->header->physics.pass_ns;
    double absent = sg_paged_out(who), first = least(touched, who->virgin_bytes);
    who->virgin_bytes -= first;
    touched -= first;
    double fetched = least(touched, absent);
    who->paged_bytes += fetched;
    state->core->device[who->device].open.paged_bytes += (uint64_t)fetched;
    /* never more than the card can hold: the rest of a pass pushes itself out again */
    double room = (double)state->map->header->card[who->device].memory_bytes -
                  sg_unpageable_bytes(state, who->device);
    admit(state, context, least(first + fetched, room > 0 ? room : 0));
    renew_oldest(state, context, touched - fetched);
}

double sg_bring_in(struct sg_state *state, uint32_t context, double bytes) {
    struct sg_context *who = &state->context[context];
    double moved = least(bytes, sg_paged_out(who)), fresh = least(bytes - moved, who->virgin_bytes);
    who->virgin_bytes -= fresh;
    who->paged_bytes += moved;
    admit(state, context, moved + fresh);
    return moved;
}

/* Nobody knows which bytes of an allocation are absent: of those copied, as large a part as of all that were touched. */
double sg_touch_copied(struct sg_state *state, uint32_t context, double bytes, double fresh) {
    struct sg_context *who = &state->context[context];
    double known = who->managed_bytes - who->virgin_bytes, first = least(fresh, who->virgin_bytes);
    double again = least(bytes - first, known), moved = known < 1.0 ? 0 : again * sg_paged_out(who) / known;
    who->virgin_bytes -= first;
    who->paged_bytes += moved;
    state->core->device[who->device].open.paged_bytes += (uint64_t)moved;
    admit(state, context, first + moved);
    renew_oldest(state, context, again - moved);
    return moved;
}

void sg_send_out(struct sg_state *state, uint32_t context, double bytes) {
    struct sg_context *who = &state->context[context];
    while (bytes >= 1.0 && who->spans)
        bytes -= take_oldest(who, bytes);
}

void sg_forget_managed(struct sg_state *state, uint32_t context, double bytes) {
    struct sg_context *who = &state->context[context];
    double absent = sg_paged_out(who), virgin = least(bytes, who->virgin_bytes), left = bytes - virgin;
    who->virgin_bytes -= virgin;
    sg_send_out(state, context, left - least(left, absent));
    who->managed_bytes = who->managed_bytes > bytes ? who->managed_bytes - bytes : 0;
}
