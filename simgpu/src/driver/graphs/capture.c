/* Stream capture: who captures, what breaks it, how streams join and part.
 *
 * The rules are CUDA's: a call that would wait for captured work, or that another thread's capture in global mode
 * forbids, fails and invalidates the capture; the legacy stream may not be used while a blocking stream captures.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

#include "driver/base/queue.h"
#include "driver/base/thread.h"
#include "shared/process/locks.h"

enum mode { GLOBAL = 0, THREAD_LOCAL = 1, RELAXED = 2 };
enum status { NONE = 0, ACTIVE = 1, INVALIDATED = 2 };

struct sg_capture {
    uint64_t id;
    enum mode mode;
    CUstream origin;
    const struct sg_thread *thread;
    CUgraph graph;
    CUstream members; /* all streams that are in it now */
    bool invalidated, graph_is_users;
    struct sg_capture *next;
};

static struct sg_mutex capture_lock = SG_MUTEX(SG_RANK_CAPTURES);
static struct sg_capture *captures;
static _Atomic uint32_t capture_count;
static uint64_t next_capture_id = 1;

/* ---- what breaks a capture */

typedef bool (*concerns)(const struct sg_capture *capture, const void *whom);

static bool invalidate(concerns test, const void *whom) {
    bool any = false;
    sg_lock(&capture_lock);
    for (struct sg_capture *capture = captures; capture; capture = capture->next) {
        if (test(capture, whom)) {
            capture->invalidated = true;
            any = true;
        }
    }
    sg_unlock(&capture_lock);
    return any;
}

static bool forbids_unsafe(const struct sg_capture *capture, const void *given) {
    const struct sg_thread *thread = given;
    if (thread->capture_mode == RELAXED)
        return false;
    if (capture->thread == thread && capture->mode != RELAXED)
        return true;
    return thread->capture_mode == GLOBAL && capture->mode == GLOBAL;
}

static bool is_of_context(const struct sg_capture *capture, const void *context) {
    return capture->origin->context == context;
}

/* a non-blocking stream does not wait for the legacy one, so that one cannot hurt its capture */
static bool is_of_blocking(const struct sg_capture *capture, const void *context) {
    return capture->origin->context == context && !(capture->origin->flags & 1u);
}

static bool is_capture(const struct sg_capture *capture, const void *other) {
    return capture == other;
}

CUresult sg_check_unsafe_call(void) {
    if (LIKELY(atomic_load_explicit(&capture_count, memory_order_relaxed) == 0))
        return CUDA_SUCCESS;
    return invalidate(forbids_unsafe, &sg_thread) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult sg_begin_unsafe(CUcontext *context) {
    NEED_INIT();
    CUresult result = sg_current(context);
    return result == CUDA_SUCCESS ? sg_check_unsafe_call() : result;
}

CUresult sg_may_use(CUstream stream) {
    if (LIKELY(!stream->legacy || atomic_load(&stream->context->captures) == 0))
        return CUDA_SUCCESS;
    return invalidate(is_of_blocking, stream->context) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult sg_may_wait_for(CUstream stream) {
    if (LIKELY(atomic_load_explicit(&capture_count, memory_order_relaxed) == 0))
        return CUDA_SUCCESS;
    struct sg_capture *capture = atomic_load(&stream->capture);
    if (capture) {
        invalidate(is_capture, capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    CUresult result = sg_may_use(stream);
    return result == CUDA_SUCCESS ? sg_check_unsafe_call() : result;
}

CUresult sg_synchronize_context(CUcontext context) {
    CUresult result = sg_usable(context);
    if (result != CUDA_SUCCESS)
        return result;
    if (atomic_load(&context->all_captures) && invalidate(is_of_context, context))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    result = sg_check_unsafe_call();
    return result == CUDA_SUCCESS ? sg_wait_context(context) : result;
}

static struct sg_capture *find_capture(uint64_t id) {
    struct sg_capture *capture = captures;
    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

CUresult sg_may_ask_event(CUevent event) {
    if (!event->capture_id)
        return sg_check_unsafe_call();
    sg_lock(&capture_lock);
    struct sg_capture *capture = find_capture(event->capture_id);
    if (capture)
        capture->invalidated = true;
    sg_unlock(&capture_lock);
    return CUDA_ERROR_CAPTURED_EVENT;
}

/* ---- streams join and part */

static void join(CUstream stream, struct sg_capture *capture) {
    stream->next_member = capture->members;
    capture->members = stream;
    atomic_store(&stream->capture, capture);
    atomic_fetch_add(&stream->context->all_captures, 1);
    if (!(stream->flags & 1u))
        atomic_fetch_add(&stream->context->captures, 1);
}

static void part(CUstream stream) {
    struct sg_capture *capture = atomic_load(&stream->capture);
    for (CUstream *at = &capture->members; *at; at = &(*at)->next_member) {
        if (*at == stream) {
            *at = stream->next_member;
            break;
        }
    }
    atomic_store(&stream->capture, NULL);
    atomic_fetch_sub(&stream->context->all_captures, 1);
    if (!(stream->flags & 1u))
        atomic_fetch_sub(&stream->context->captures, 1);
    free(stream->frontier);
    stream->frontier = NULL;
    stream->frontier_count = 0;
}

static CUresult add_captured(CUstream stream, struct sg_capture *capture, const struct sg_work *work) {
    if (capture->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    CUgraphNode node = sg_add_node(capture->graph, stream->frontier, stream->frontier_count, work);
    return node && sg_set_frontier(stream, &node, 1) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sg_capture_work(CUstream stream, const struct sg_work *work) {
    sg_lock(&capture_lock);
    struct sg_capture *capture = atomic_load(&stream->capture);
    bool can = work->type != SG_NODE_PREFETCH && !(work->type == SG_NODE_HOST && work->host.callback);
    if (!can)
        capture->invalidated = true;
    CUresult result = can ? add_captured(stream, capture, work) : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    sg_unlock(&capture_lock);
    return result;
}

/* ---- events between capturing streams */

void sg_forget_captured(CUevent event) {
    free(event->capture_nodes);
    event->capture_nodes = NULL;
    event->capture_node_count = 0;
    event->capture_id = 0;
}

CUresult sg_capture_event(CUstream stream, CUevent event) {
    sg_lock(&capture_lock);
    struct sg_capture *capture = atomic_load(&stream->capture);
    CUgraphNode *nodes = calloc(stream->frontier_count + 1, sizeof *nodes);
    CUresult result = CUDA_SUCCESS;
    if (!nodes || capture->invalidated) {
        free(nodes);
        result = nodes ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        sg_forget_captured(event);
        if (stream->frontier_count)
            memcpy(nodes, stream->frontier, stream->frontier_count * sizeof *nodes);
        event->capture_nodes = nodes;
        event->capture_node_count = stream->frontier_count;
        event->capture_id = capture->id;
    }
    sg_unlock(&capture_lock);
    return result;
}

static CUresult wait_inside(CUstream stream, CUevent event, struct sg_capture *mine, struct sg_capture *its) {
    if (mine->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (mine == its)
        return sg_extend_frontier(stream, event->capture_nodes, event->capture_node_count) ? CUDA_SUCCESS
                                                                                        : CUDA_ERROR_OUT_OF_MEMORY;
    if (!event->capture_id && !event->recorded)
        return CUDA_SUCCESS; /* never recorded: nothing to wait for */
    mine->invalidated = true;
    if (its)
        its->invalidated = true;
    return its ? CUDA_ERROR_STREAM_CAPTURE_MERGE
               : event->capture_id ? CUDA_ERROR_CAPTURED_EVENT : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

static CUresult wait_from_outside(CUstream stream, CUevent event, struct sg_capture *its) {
    if (!its)
        return CUDA_ERROR_CAPTURED_EVENT; /* that capture has ended */
    if (stream->legacy) {
        its->invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (its->invalidated)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    join(stream, its);
    return sg_set_frontier(stream, event->capture_nodes, event->capture_node_count) ? CUDA_SUCCESS
                                                                                 : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sg_capture_wait(CUstream stream, CUevent event) {
    sg_lock(&capture_lock);
    struct sg_capture *mine = atomic_load(&stream->capture);
    struct sg_capture *its = event->capture_id ? find_capture(event->capture_id) : NULL;
    CUresult result = mine ? wait_inside(stream, event, mine, its) : wait_from_outside(stream, event, its);
    sg_unlock(&capture_lock);
    return result;
}

/* ---- begin and end */

static CUresult begin(CUstream stream, enum mode mode, CUgraph graph, CUgraphNode *before, size_t count) {
    struct sg_capture *capture = calloc(1, sizeof *capture);
    CUgraph into = graph ? graph : sg_new_graph();
    if (!capture || !into || !sg_set_frontier(stream, before, count)) {
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct sg_capture){
        .id = next_capture_id++,
        .mode = mode,
        .origin = stream,
        .thread = &sg_thread,
        .graph = into,
        .graph_is_users = graph != NULL,
        .next = captures,
    };
    captures = capture;
    atomic_fetch_add(&capture_count, 1);
    join(stream, capture);
    return CUDA_SUCCESS;
}

CUresult sg_begin_capture(CUstream given, unsigned mode, CUgraph graph, CUgraphNode *before, size_t count) {
    CUstream stream;
    NEED_INIT();
    CUresult result = sg_stream(given, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (mode > RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    sg_lock(&capture_lock);
    result = sg_is_capturing(stream) ? CUDA_ERROR_ILLEGAL_STATE : begin(stream, mode, graph, before, count);
    sg_unlock(&capture_lock);
    return result;
}

static void mark_ancestors(CUgraphNode node) {
    if (node->mark)
        return;
    node->mark = 1;
    for (size_t i = 0; i < node->before_count; i++)
        mark_ancestors(node->before[i]);
}

/* Has everything that other streams did come back to the origin? */
static bool all_joined(const struct sg_capture *capture) {
    const CUstream origin = capture->origin;
    for (CUgraphNode node = capture->graph->first; node; node = node->next)
        node->mark = 0;
    for (size_t i = 0; i < origin->frontier_count; i++)
        mark_ancestors(origin->frontier[i]);
    for (CUstream stream = capture->members; stream; stream = stream->next_member)
        for (size_t i = 0; i < stream->frontier_count; i++)
            if (!stream->frontier[i]->mark)
                return false;
    return true;
}

static void finish(struct sg_capture *capture) {
    while (capture->members)
        part(capture->members);
    for (struct sg_capture **at = &captures; *at; at = &(*at)->next) {
        if (*at == capture) {
            *at = capture->next;
            break;
        }
    }
    atomic_fetch_sub(&capture_count, 1);
    free(capture);
}

static CUresult end(CUstream stream, CUgraph *graph) {
    struct sg_capture *capture = atomic_load(&stream->capture);
    *graph = NULL;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream) {
        capture->invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != RELAXED && capture->thread != &sg_thread)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult result = CUDA_SUCCESS;
    if (capture->invalidated)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!all_joined(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (result == CUDA_SUCCESS)
        *graph = capture->graph;
    else if (!capture->graph_is_users)
        sg_destroy_graph(capture->graph);
    finish(capture);
    return result;
}

CUresult sg_end_capture(CUstream stream, CUgraph *graph) {
    sg_lock(&capture_lock);
    CUresult result = end(stream, graph);
    sg_unlock(&capture_lock);
    return result;
}

void sg_leave_capture(CUstream stream) {
    sg_lock(&capture_lock);
    struct sg_capture *capture = atomic_load(&stream->capture);
    if (capture && capture->origin == stream) {
        if (!capture->graph_is_users)
            sg_destroy_graph(capture->graph);
        finish(capture);
    } else if (capture) {
        capture->invalidated = true;
        part(stream);
    }
    sg_unlock(&capture_lock);
}

struct sg_capture_view sg_view_capture(CUstream stream) {
    struct sg_capture_view view = {.status = NONE};
    sg_lock(&capture_lock);
    struct sg_capture *capture = atomic_load(&stream->capture);
    if (capture) {
        view.status = capture->invalidated ? INVALIDATED : ACTIVE;
        view.id = capture->id;
        view.graph = capture->graph;
    }
    sg_unlock(&capture_lock);
    return view;
}

CUresult sg_change_frontier(CUstream stream, CUgraphNode *nodes, size_t count, bool replace) {
    sg_lock(&capture_lock);
    struct sg_capture *capture = atomic_load(&stream->capture);
    CUresult result = CUDA_SUCCESS;
    if (!capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (capture->invalidated)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!(replace ? sg_set_frontier : sg_extend_frontier)(stream, nodes, count))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    sg_unlock(&capture_lock);
    return result;
}
