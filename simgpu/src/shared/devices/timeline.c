/* The devices' timeline.
 *
 * All devices advance together from event to event: the end of an operation, of a slice, of a switch, a submission that
 * lay in the future, a change of pace by paging.  Contexts with work take slices in turn; within a context channels are
 * first in, first out, and up to `overlap` of them execute at once.  The result depends on the submissions' stamps, not
 * on who looks or when.
 */
#include "timeline.h"

#include "paging.h"
#include "ready.h"
#include "record.h"
#include "shared/file/slots.h"

#define NEVER 1e18

struct lanes {
    uint32_t count, channel[SG_CHANNELS];
    bool compute; /* some of them executes a kernel, which touches memory; copies touch only what they copy */
};

/* ---- the ends of operations */

static bool ends_at_once(const struct sg_state *state, struct sg_op *op) {
    switch ((enum sg_kind)op->kind) {
    case SG_MARK:
        return true;
    case SG_WAIT:
        return sg_wait_is_over(state, op);
    case SG_HOST:
        return atomic_load(&op->signalled) != 0;
    case SG_KERNEL:
        return op->length_ns == 0;
    case SG_FETCH:
    case SG_COPY:
    case SG_TOGETHER:
        return false;
    }
    return true; /* a kind nobody knows must not stop the device */
}

static void end_op(struct sg_state *state, uint32_t context, uint32_t channel, struct sg_op *op) {
    struct sg_channel *queue = &state->context[context].channel[channel];
    atomic_store_explicit(&op->done_ns, state->core->now_ns, memory_order_relaxed);
    if (sg_takes_device(op))
        sg_record_kernel_end(state, context);
    queue->head++;
    queue->begun = 0;
    queue->goal = 0;
}

static bool settle_context(struct sg_state *state, uint32_t context) {
    bool moved = false;
    for (uint32_t channel = 0; channel < state->context[context].channels; channel++) {
        struct sg_op *op;
        while ((op = sg_ready_op(state, context, channel)) && ends_at_once(state, op)) {
            end_op(state, context, channel, op);
            moved = true;
        }
    }
    return moved;
}

static void settle(struct sg_state *state) {
    bool moved = true;
    while (moved) {
        moved = false;
        for (int i = sg_next_used(state->core, -1); i >= 0; i = sg_next_used(state->core, i))
            moved |= settle_context(state, (uint32_t)i);
    }
}

/* ---- groups: kernels that end together */

static struct sg_group *find_group(struct sg_core *core, uint64_t key, uint32_t size) {
    struct sg_group *empty = NULL;
    for (uint32_t i = 0; i < SG_GROUPS; i++) {
        struct sg_group *group = &core->group[i];
        if (group->key == key && group->size == size)
            return group;
        if (!empty && (group->size == 0 || group->arrived % group->size == 0))
            empty = group;
    }
    if (empty)
        *empty = (struct sg_group){.key = key, .size = size};
    return empty;
}

static void arrive(struct sg_state *state, struct sg_channel *queue, const struct sg_op *op) {
    uint32_t size = op->sequence > 0 ? (uint32_t)op->sequence : 1;
    struct sg_group *group = find_group(state->core, op->target, size);
    if (!group) {
        queue->goal = 0;
        return;
    }
    group->arrived++;
    queue->goal = (group->arrived + size - 1) / size * size;
}

static bool partners_came(const struct sg_state *state, const struct sg_channel *queue, const struct sg_op *op) {
    if (op->kind != SG_TOGETHER || queue->goal == 0)
        return true;
    for (uint32_t i = 0; i < SG_GROUPS; i++) {
        const struct sg_group *group = &state->core->group[i];
        if (group->key == op->target && group->size == (uint32_t)op->sequence)
            return group->arrived >= queue->goal;
    }
    return true; /* its group is complete, and its place was taken by another */
}

/* ---- slices */

static bool goes_before(const struct sg_state *state, uint32_t context, uint32_t one, uint32_t other) {
    const struct sg_op *first = sg_head_op(state, context, one), *second = sg_head_op(state, context, other);
    const struct sg_channel *queue = state->context[context].channel;
    if (queue[one].begun != queue[other].begun)
        return queue[one].begun > queue[other].begun;
    if (first->priority != second->priority)
        return first->priority < second->priority;
    return first->order < second->order;
}

/* The channels of a context that execute now: what has begun first, then by priority, then by order of submission. */
static struct lanes lanes_of(const struct sg_state *state, uint32_t context) {
    struct lanes lanes = {0};
    for (uint32_t channel = 0; channel < state->context[context].channels; channel++) {
        const struct sg_op *op = sg_ready_op(state, context, channel);
        if (!op || !sg_takes_device(op))
            continue;
        uint32_t at = lanes.count++;
        for (; at > 0 && goes_before(state, context, channel, lanes.channel[at - 1]); at--)
            lanes.channel[at] = lanes.channel[at - 1];
        lanes.channel[at] = channel;
    }
    if (lanes.count > state->map->header->physics.overlap)
        lanes.count = state->map->header->physics.overlap;
    for (uint32_t i = 0; i < lanes.count; i++) {
        const struct sg_op *op = sg_head_op(state, context, lanes.channel[i]);
        lanes.compute |= op->kind == SG_KERNEL || op->kind == SG_TOGETHER;
    }
    return lanes;
}

static bool has_work(const struct sg_state *state, uint32_t context) {
    for (uint32_t channel = 0; channel < state->context[context].channels; channel++) {
        const struct sg_op *op = sg_ready_op(state, context, channel);
        if (op && sg_takes_device(op))
            return true;
    }
    return false;
}

static int next_with_work(const struct sg_state *state, uint32_t device, int after) {
    int first = -1;
    for (int i = sg_next_used(state->core, -1); i >= 0; i = sg_next_used(state->core, i)) {
        if (state->context[i].device != device || !has_work(state, (uint32_t)i))
            continue;
        if (i > after)
            return i;
        if (first < 0)
            first = i;
    }
    return first;
}

static void give_slice(struct sg_state *state, struct sg_device *gpu, int context) {
    const struct sg_physics *physics = &state->map->header->physics;
    uint64_t now = state->core->now_ns;
    bool other = context != gpu->last;
    gpu->switch_end_ns = other && gpu->last >= 0 ? now + physics->switch_ns : now;
    gpu->slice_end_ns = gpu->switch_end_ns + physics->slice_ns;
    gpu->switches += other;
    gpu->running = gpu->last = context;
}

static void choose_running(struct sg_state *state, uint32_t device) {
    struct sg_device *gpu = &state->core->device[device];
    bool works = gpu->running >= 0 && sg_in_use(state->core, (uint32_t)gpu->running) &&
                 has_work(state, (uint32_t)gpu->running);
    if (works && state->core->now_ns < gpu->slice_end_ns)
        return;
    int next = next_with_work(state, device, gpu->last);
    if (next < 0)
        gpu->running = -1;
    else
        give_slice(state, gpu, next);
}

static void begin_op(struct sg_state *state, uint32_t context, struct sg_channel *queue, const struct sg_op *op) {
    const struct sg_physics *physics = &state->map->header->physics;
    queue->begun = 1;
    queue->left_ns = (double)op->length_ns;
    if (op->kind == SG_TOGETHER)
        arrive(state, queue, op);
    double moved = 0;
    if (op->kind == SG_FETCH)
        moved = sg_bring_in(state, context, (double)op->target);
    if (op->kind == SG_COPY && op->target)
        moved = sg_touch_copied(state, context, (double)op->target, (double)op->sequence);
    queue->left_ns += moved * 1e9 / (double)physics->page_bytes_per_s;
}

static bool executes(const struct sg_state *state, const struct sg_device *gpu) {
    return gpu->running >= 0 && state->core->now_ns >= gpu->switch_end_ns;
}

static void begin_lanes(struct sg_state *state, struct sg_device *gpu) {
    if (!executes(state, gpu))
        return;
    uint32_t context = (uint32_t)gpu->running;
    struct lanes lanes = lanes_of(state, context);
    for (uint32_t i = 0; i < lanes.count; i++) {
        struct sg_channel *queue = &state->context[context].channel[lanes.channel[i]];
        if (!queue->begun)
            begin_op(state, context, queue, sg_head_op(state, context, lanes.channel[i]));
    }
}

/* ---- from event to event */

static void nearer(double *nearest, double candidate) {
    if (candidate < *nearest)
        *nearest = candidate;
}

static struct sg_pace pace_of(const struct sg_state *state, uint32_t context, const struct lanes *lanes) {
    return lanes->compute ? sg_pace_of(state, context) : (struct sg_pace){1.0, NEVER};
}

static double until_lane_end(struct sg_state *state, uint32_t context) {
    double nearest = NEVER;
    struct lanes lanes = lanes_of(state, context);
    struct sg_pace pace = pace_of(state, context, &lanes);
    for (uint32_t i = 0; i < lanes.count; i++) {
        const struct sg_channel *queue = &state->context[context].channel[lanes.channel[i]];
        if (partners_came(state, queue, sg_head_op(state, context, lanes.channel[i])))
            nearer(&nearest, queue->left_ns * pace.slowdown);
    }
    nearer(&nearest, pace.stretch_ns);
    return nearest;
}

static double until_device_event(struct sg_state *state, const struct sg_device *gpu) {
    double now = (double)state->core->now_ns;
    if (gpu->running < 0)
        return NEVER;
    if (!executes(state, gpu))
        return (double)gpu->switch_end_ns - now;
    double nearest = until_lane_end(state, (uint32_t)gpu->running);
    if (next_with_work(state, (uint32_t)(gpu - state->core->device), gpu->running) != gpu->running)
        nearer(&nearest, (double)gpu->slice_end_ns - now);
    return nearest;
}

static double until_submission(const struct sg_state *state) {
    double nearest = NEVER;
    for (int i = sg_next_used(state->core, -1); i >= 0; i = sg_next_used(state->core, i)) {
        for (uint32_t channel = 0; channel < state->context[i].channels; channel++) {
            if (!sg_is_pending(state, (uint32_t)i, channel))
                continue;
            const struct sg_op *op =
                sg_op_at(state, (uint32_t)i, channel, state->context[i].channel[channel].head);
            if (op->submit_ns > state->core->now_ns)
                nearer(&nearest, (double)(op->submit_ns - state->core->now_ns));
        }
    }
    return nearest;
}

static void run_lanes(struct sg_state *state, uint32_t context, uint64_t wall_ns) {
    struct lanes lanes = lanes_of(state, context);
    double compute = (double)wall_ns / pace_of(state, context, &lanes).slowdown;
    uint64_t now = state->core->now_ns;
    state->core->now_ns = now + wall_ns;
    sg_record_execution(state, context, now, now + wall_ns);
    if (lanes.compute)
        sg_touch(state, context, compute);
    for (uint32_t i = 0; i < lanes.count; i++) {
        struct sg_channel *queue = &state->context[context].channel[lanes.channel[i]];
        struct sg_op *op = sg_head_op(state, context, lanes.channel[i]);
        if (!partners_came(state, queue, op))
            continue;
        queue->goal = 0; /* once they came, nothing takes it back */
        queue->left_ns -= compute;
        if (queue->left_ns < 0.5)
            end_op(state, context, lanes.channel[i], op);
    }
    state->core->now_ns = now;
}

static void note_residency(struct sg_state *state) {
    for (int i = sg_next_used(state->core, -1); i >= 0; i = sg_next_used(state->core, i)) {
        double change = sg_resident(&state->context[i]) - state->context[i].said_resident;
        if (change > 64e6 || change < -64e6)
            sg_record_residency(state, (uint32_t)i);
    }
}

static void step(struct sg_state *state, uint64_t wall_ns) {
    for (uint32_t device = 0; device < state->map->header->devices; device++) {
        const struct sg_device *gpu = &state->core->device[device];
        if (executes(state, gpu))
            run_lanes(state, (uint32_t)gpu->running, wall_ns);
    }
    state->core->now_ns += wall_ns;
    note_residency(state);
}

static double until_next_event(struct sg_state *state) {
    double nearest = until_submission(state);
    for (uint32_t device = 0; device < state->map->header->devices; device++)
        nearer(&nearest, until_device_event(state, &state->core->device[device]));
    return nearest;
}

static void drop_the_dead(struct sg_state *state, uint64_t now) {
    for (int i = sg_next_used(state->core, -1); i >= 0; i = sg_next_used(state->core, i)) {
        struct sg_context *context = &state->context[i];
        if (context->owner == state->map->owner || now - context->checked_ns < 1000000)
            continue;
        context->checked_ns = now;
        if (!sg_is_alive(state->map, context->owner))
            sg_drop_context(state, (uint32_t)i);
    }
}

void sg_advance(struct sg_state *state, uint64_t until_ns) {
    drop_the_dead(state, until_ns);
    for (;;) {
        settle(state);
        for (uint32_t device = 0; device < state->map->header->devices; device++) {
            choose_running(state, device);
            begin_lanes(state, &state->core->device[device]);
        }
        if (state->core->now_ns >= until_ns)
            return;
        double rest = (double)(until_ns - state->core->now_ns), next = until_next_event(state);
        double length = next < rest ? next : rest;
        step(state, length < 1.0 ? 1 : (uint64_t)(length + 0.999));
    }
}

uint64_t sg_lower_bound(const struct sg_state *state, uint32_t context, uint32_t channel, uint64_t sequence) {
    const struct sg_channel *queue = &state->context[context].channel[channel];
    double sum = 0;
    for (uint64_t i = queue->head; i <= sequence && i < queue->head + SG_RING; i++) {
        const struct sg_op *op = sg_op_at(state, context, channel, i);
        bool begun = i == queue->head && queue->begun;
        if (op->kind == SG_KERNEL || op->kind == SG_COPY || begun)
            sum += begun ? queue->left_ns : (double)op->length_ns;
    }
    return (uint64_t)sum;
}

/* A partner that dies has not come: else its half of a round would let the next group's first one through alone. */
static void withdraw_arrivals(struct sg_state *state, uint32_t context) {
    for (uint32_t channel = 0; channel < state->context[context].channels; channel++) {
        const struct sg_channel *queue = &state->context[context].channel[channel];
        const struct sg_op *op = sg_head_op(state, context, channel);
        if (!op || !queue->begun || op->kind != SG_TOGETHER || partners_came(state, queue, op))
            continue;
        struct sg_group *group = find_group(state->core, op->target, (uint32_t)op->sequence);
        if (group && group->arrived)
            group->arrived--;
    }
}

void sg_drop_context(struct sg_state *state, uint32_t context) {
    struct sg_context *gone = &state->context[context];
    struct sg_device *gpu = &state->core->device[gone->device];
    withdraw_arrivals(state, context);
    gone->spans = 0;
    gone->managed_bytes = gone->virgin_bytes = 0;
    gone->plain_bytes = 0;
    sg_record_residency(state, context);
    if (gpu->open.serial == gone->serial)
        sg_record_close(state, gone->device);
    sg_record_death(state, context);
    if (gpu->running == (int32_t)context)
        gpu->running = -1;
    if (gpu->last == (int32_t)context)
        gpu->last = -1;
    state->core->used[context / 64] &= ~(1ull << (context % 64));
    gone->serial = 0;
}
