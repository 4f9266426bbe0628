/* Events: a mark in a queue, and an operation that waits for one.
 *
 * An event for several processes is marked in its shared moment, and found there by whoever asks: the mark may be another
 * process'.  A mark of a process that has ended has passed.
 */
#include "work.h"

#include "driver/base/queue.h"
#include "driver/base/thread.h"
#include "driver/graphs/capture.h"
#include "shared/devices/ready.h"
#include "shared/process/changes.h"
#include "shared/process/transaction.h"
#include "stretch.h"

#define LOOK_NS 250000 /* simulated time between two looks at another process' mark */

static uint64_t target_of(CUcontext context, uint32_t channel) {
    return context->index | (uint64_t)channel << 16 | (uint64_t)context->serial << 32;
}

static void write_moment(struct sg_shared_moment *moment, uint64_t target, uint64_t sequence) {
    uint64_t ticket = atomic_fetch_add(&moment->tickets, 1), shown = atomic_load(&moment->shown);
    atomic_store(&moment->mark[ticket % COUNT(moment->mark)].target, target);
    atomic_store(&moment->mark[ticket % COUNT(moment->mark)].sequence, sequence);
    while (shown < ticket + 1 && !atomic_compare_exchange_weak(&moment->shown, &shown, ticket + 1))
        continue;
}

/* A mark is used again only after 64 further records: half of them may come while it is read. */
static bool read_moment(struct sg_shared_moment *moment, struct sg_op *wait) {
    uint64_t shown;
    do {
        shown = atomic_load(&moment->shown);
        if (shown == 0)
            return false;
        wait->target = atomic_load(&moment->mark[(shown - 1) % COUNT(moment->mark)].target);
        wait->sequence = atomic_load(&moment->mark[(shown - 1) % COUNT(moment->mark)].sequence);
    } while (atomic_load(&moment->tickets) - shown > COUNT(moment->mark) / 2);
    return true;
}

/* The operation that waits for the event's last mark; false if it has none. */
static bool find_mark(CUevent event, struct sg_op *wait) {
    *wait = (struct sg_op){.kind = SG_WAIT};
    if (event->shared)
        return read_moment(event->shared, wait);
    if (!event->recorded || !sg_is(event->context, SG_CONTEXT_HANDLE))
        return false;
    wait->target = target_of(event->context, event->channel);
    wait->sequence = event->sequence;
    return true;
}

CUresult sg_record_event(CUevent event, CUstream stream) {
    struct sg_stamp *stamp = sg_new_stamp();
    if (!stamp)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const struct sg_op op = {.kind = SG_MARK};
    uint64_t sequence;
    CUresult result = sg_push(stream, &op, &sequence, stamp);
    if (result != CUDA_SUCCESS) {
        sg_release_stamp(stamp);
        return result;
    }
    sg_release_stamp(event->stamp);
    sg_forget_captured(event);
    event->stamp = stamp;
    event->channel = stream->channel;
    event->sequence = sequence;
    event->recorded = true;
    if (event->shared)
        write_moment(event->shared, target_of(stream->context, stream->channel), sequence);
    return CUDA_SUCCESS;
}

CUresult sg_wait_event(CUstream stream, CUevent event) {
    struct sg_op wait;
    return find_mark(event, &wait) ? sg_push(stream, &wait, NULL, NULL) : CUDA_SUCCESS;
}

static bool has_passed(const struct sg_op *wait) {
    struct sg_state state = sg_begin();
    bool passed = sg_wait_is_over(&state, wait);
    sg_commit(&state);
    return passed;
}

static CUresult query_shared(CUevent event) {
    struct sg_op wait;
    CUresult result = sg_usable(event->context);
    if (result != CUDA_SUCCESS)
        return result;
    return !find_mark(event, &wait) || has_passed(&wait) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sg_query_event(CUevent event) {
    sg_spend(sg_client.settings.query_cost_ns);
    if (event->shared)
        return query_shared(event);
    if (!event->recorded)
        return CUDA_SUCCESS;
    CUresult result = sg_usable(event->context);
    if (result != CUDA_SUCCESS)
        return result;
    return sg_has_ended(event->context, event->channel, event->sequence) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sg_synchronize_event(CUevent event) {
    if (!event->shared)
        return event->recorded ? sg_wait_for(event->context, event->channel, event->sequence) : CUDA_SUCCESS;
    for (;;) {
        uint32_t seen = sg_change_count();
        CUresult result = query_shared(event);
        if (result != CUDA_ERROR_NOT_READY)
            return result;
        sg_sleep(seen, LOOK_NS);
    }
}
