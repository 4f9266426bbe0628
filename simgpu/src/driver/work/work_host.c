/* Host functions, callbacks and stream memory operations: run by one thread of this process when the device's queue has
 * come to them. The queue stands meanwhile, other queues go on.
 */
#define _GNU_SOURCE
#include "work.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "driver/base/queue.h"
#include "shared/devices/ready.h"
#include "shared/devices/timeline.h"
#include "shared/process/changes.h"
#include "shared/process/client.h"
#include "shared/process/locks.h"
#include "shared/process/transaction.h"

struct pending {
    CUcontext context;
    CUstream stream;
    uint32_t channel, serial;
    uint64_t sequence;
    struct sg_host_work host;
    CUstreamBatchMemOpParams *operations;
    unsigned count, next_operation;
    struct pending *next;
};

enum progress { NOT_YET, READY, GONE };

static struct sg_mutex pending_lock = SG_MUTEX(SG_RANK_HOST_WORK);
static pthread_cond_t pending_added = PTHREAD_COND_INITIALIZER;
static struct pending *pending_list;
static bool thread_runs;

/* ---- stream memory operations */

enum operation { WAIT_32 = 1, WRITE_32 = 2, FLUSH = 3, WAIT_64 = 4, WRITE_64 = 5, BARRIER = 6 };
enum condition { AT_LEAST = 0, EQUAL = 1, AND = 2, NOR = 3 };

static bool holds(uint64_t have, uint64_t want, unsigned flags, bool wide) {
    switch ((enum condition)(flags & 3u)) {
    case AT_LEAST: /* cyclic, as the driver compares */
        return wide ? (int64_t)(have - want) >= 0 : (int32_t)((uint32_t)have - (uint32_t)want) >= 0;
    case EQUAL:
        return have == want;
    case AND:
        return (have & want) != 0;
    case NOR:
        return (wide ? ~(have | want) : (uint32_t) ~(have | want)) != 0;
    }
    return true;
}

static bool try_operation(const CUstreamBatchMemOpParams *operation) {
    bool wide = operation->operation == WAIT_64 || operation->operation == WRITE_64;
    void *address = (void *)(uintptr_t)operation->waitValue.address;
    uint64_t value = wide ? operation->waitValue.value64 : (uint32_t)operation->waitValue.value64;
    switch ((enum operation)operation->operation) {
    case WRITE_32:
        __atomic_store_n((uint32_t *)address, (uint32_t)value, __ATOMIC_RELEASE);
        return true;
    case WRITE_64:
        __atomic_store_n((uint64_t *)address, value, __ATOMIC_RELEASE);
        return true;
    case WAIT_32:
        return holds(__atomic_load_n((uint32_t *)address, __ATOMIC_ACQUIRE), value, operation->waitValue.flags, false);
    case WAIT_64:
        return holds(__atomic_load_n((uint64_t *)address, __ATOMIC_ACQUIRE), value, operation->waitValue.flags, true);
    case FLUSH:
    case BARRIER:
        return true;
    }
    return true;
}

static bool still_waits(const CUstreamBatchMemOpParams *operation) {
    return (operation->operation == WAIT_32 || operation->operation == WAIT_64) && !try_operation(operation);
}

/* ---- the thread */

static bool run(struct pending *one) {
    while (one->next_operation < one->count && try_operation(&one->operations[one->next_operation]))
        one->next_operation++;
    if (one->next_operation < one->count)
        return false;
    if (one->host.callback)
        one->host.callback(one->stream, CUDA_SUCCESS, one->host.data);
    else if (one->host.function)
        one->host.function(one->host.data);
    return true;
}

static enum progress progress_of(const struct sg_state *state, const struct pending *one) {
    uint32_t index = one->context->index;
    if (!sg_in_use(state->core, index) || state->context[index].serial != one->serial)
        return GONE;
    if (state->context[index].channel[one->channel].head != one->sequence)
        return NOT_YET;
    return sg_is_ready(state, index, one->channel) ? READY : NOT_YET;
}

static void signal_done(const struct pending *one) {
    struct sg_op *ring = sg_ring_at(&sg_client.map, one->context->index, one->channel);
    atomic_store(&ring[one->sequence % SG_RING].signalled, 1);
    sg_tell_change();
}

static void drop(struct pending *gone) {
    sg_lock(&pending_lock);
    for (struct pending **at = &pending_list; *at; at = &(*at)->next) {
        if (*at == gone) {
            *at = gone->next;
            break;
        }
    }
    sg_unlock(&pending_lock);
    free(gone->operations);
    free(gone);
}

/* One look at all that is pending; returns one that may run or has gone, and how long to wait if there is none. */
static struct pending *find_next(enum progress *progress, uint32_t *seen, uint64_t *bound) {
    struct pending *found = NULL;
    *seen = sg_change_count();
    *bound = UINT64_MAX;
    struct sg_state state = sg_begin();
    sg_lock(&pending_lock);
    for (struct pending *one = pending_list; one && !found; one = one->next) {
        *progress = progress_of(&state, one);
        bool stuck = *progress == READY && one->next_operation < one->count &&
                     still_waits(&one->operations[one->next_operation]);
        if (*progress != NOT_YET && !stuck)
            found = one;
        uint64_t least = stuck ? 100000 : *progress == GONE ? 0 :
                         sg_lower_bound(&state, one->context->index, one->channel, one->sequence);
        *bound = least < *bound ? least : *bound;
    }
    sg_unlock(&pending_lock);
    sg_commit(&state);
    return found;
}

static void wait_for_pending(void) {
    sg_lock(&pending_lock);
    while (!pending_list)
        pthread_cond_wait(&pending_added, &pending_lock.mutex);
    sg_unlock(&pending_lock);
}

static void *serve(void *unused) {
    (void)unused;
    for (;;) {
        enum progress progress = NOT_YET;
        uint32_t seen;
        uint64_t bound;
        wait_for_pending();
        struct pending *one = find_next(&progress, &seen, &bound);
        if (!one) {
            sg_sleep(seen, bound < 100000 ? 100000 : bound);
            continue;
        }
        if (progress == READY && !run(one))
            continue;
        if (progress == READY)
            signal_done(one);
        drop(one);
    }
    return NULL;
}

static bool start_thread(void) {
    pthread_t thread;
    sigset_t all, before;
    if (thread_runs)
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    thread_runs = pthread_create(&thread, NULL, serve, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (thread_runs)
        pthread_detach(thread);
    return thread_runs;
}

static CUresult enqueue(CUstream stream, struct pending *one) {
    const struct sg_op op = {.kind = SG_HOST};
    one->context = stream->context;
    one->serial = stream->context->serial;
    one->stream = stream;
    one->channel = stream->channel;
    CUresult result = sg_push(stream, &op, &one->sequence, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    sg_lock(&pending_lock);
    struct pending **last = &pending_list;
    while (*last)
        last = &(*last)->next;
    *last = one;
    bool started = start_thread();
    pthread_cond_signal(&pending_added);
    sg_unlock(&pending_lock);
    sg_tell_change();
    return started ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult sg_run_host(CUstream stream, const struct sg_host_work *host) {
    struct pending *one = calloc(1, sizeof *one);
    if (!one)
        return CUDA_ERROR_OUT_OF_MEMORY;
    one->host = *host;
    CUresult result = enqueue(stream, one);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OPERATING_SYSTEM)
        free(one);
    return result;
}

CUresult sg_run_batch(CUstream stream, const struct sg_batch_work *batch) {
    struct pending *one = calloc(1, sizeof *one);
    CUstreamBatchMemOpParams *operations = calloc(batch->count, sizeof *operations);
    if (!one || !operations) {
        free(one);
        free(operations);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(operations, batch->operations, batch->count * sizeof *operations);
    one->operations = operations;
    one->count = batch->count;
    CUresult result = enqueue(stream, one);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OPERATING_SYSTEM) {
        free(operations);
        free(one);
    }
    return result;
}
