/* What the files of the driver API share: handles, the thread's state, and how work gets into a queue. */
#ifndef SIMGPU_DRIVER_H
#define SIMGPU_DRIVER_H

#include <pthread.h>

#include "driver/abi/api.h"
#include "shared/process/client.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- handles: memory of one kind stays of that kind, so a stale handle is refused instead of followed */

enum sg_handle_kind {
    SG_NO_HANDLE,
    SG_CONTEXT_HANDLE,
    SG_STREAM_HANDLE,
    SG_EVENT_HANDLE,
    SG_MODULE_HANDLE,
    SG_FUNCTION_HANDLE,
    SG_KERNEL_HANDLE,
    SG_LIBRARY_HANDLE,
    SG_GRAPH_HANDLE,
    SG_NODE_HANDLE,
    SG_EXEC_HANDLE,
    SG_POOL_HANDLE,
    SG_ARRAY_HANDLE,
    SG_MIPMAP_HANDLE,
    SG_LINK_HANDLE,
    SG_USER_OBJECT_HANDLE,
    SG_TEXTURE_HANDLE,
    SG_ALLOCATION_HANDLE,
    SG_HANDLE_KINDS
};

struct sg_handle {
    enum sg_handle_kind kind; /* first in every handle; SG_NO_HANDLE once destroyed */
    struct sg_handle *next_free;
};

void *sg_new_handle(enum sg_handle_kind kind, size_t bytes);
void sg_free_handle(void *handle, enum sg_handle_kind kind);
static inline bool sg_is(const void *handle, enum sg_handle_kind kind) {
    return handle && ((const struct sg_handle *)handle)->kind == kind;
}

/* ---- contexts and queues */

struct sg_stamp; /* when an event's operation ended */

struct sg_queue {
    pthread_mutex_t lock;
    _Atomic uint64_t tail;
    uint64_t head_seen; /* the device had come at least so far */
    struct sg_stamp **stamps;
};

struct sg_capture;

struct CUctx_st {
    struct sg_handle handle;
    uint32_t index, serial, device, flags;
    bool primary;
    _Atomic bool gone;
    _Atomic uint64_t order;
    _Atomic uint32_t captures; /* of blocking streams, now going on */
    _Atomic uint32_t all_captures;
    uint64_t id;
    unsigned api_version;
    size_t limit[16];
    CUfunc_cache cache_config;
    struct CUstream_st *legacy, *streams;
    pthread_mutex_t lock;
    uint32_t next_channel;
    uint64_t peers; /* devices whose memory it may use */
    struct CUctx_st *next;
    struct sg_queue queue[SG_CHANNELS];
};

struct CUstream_st {
    struct sg_handle handle;
    CUcontext context;
    uint32_t channel, flags;
    int priority;
    uint64_t id;
    _Atomic uint64_t last; /* one after its last operation's sequence */
    _Atomic(struct sg_capture *) capture;
    bool legacy;
    struct CUgraphNode_st **frontier; /* while it captures: what its next node will wait for */
    size_t frontier_count;
    struct CUstream_st *next_member; /* of the same capture */
    CUstreamAttrValue attribute[24];
    struct CUstream_st *next;
};

struct CUevent_st {
    struct sg_handle handle;
    CUcontext context;
    unsigned flags;
    bool recorded;
    uint32_t channel;
    uint64_t sequence;
    struct sg_stamp *stamp;
    uint64_t capture_id; /* last recorded inside this capture; 0: outside */
    struct CUgraphNode_st **capture_nodes;
    size_t capture_node_count;
};

struct CUmod_st {
    struct sg_handle handle;
    CUcontext context;
    char *entries; /* names a PTX text defines, each ended by \n; NULL: any name exists */
    struct CUfunc_st *functions;
    uint32_t loading;
};

struct CUfunc_st {
    struct sg_handle handle;
    CUmodule module;
    char *name;
    bool length_is_param, is_idle; /* idle: of length 0, whatever it is given */
    uint32_t partners;
    uint64_t length_ns, group_key;
    int attribute[32];
    unsigned block[3]; /* set by cuFuncSetBlockShape */
    uint64_t param;    /* set by cuParamSet* */
    struct CUfunc_st *next;
    struct CUkern_st *kernel;
};

/* ---- the calling thread */

#define SG_STACK 64

struct sg_default_stream {
    CUcontext context;
    uint32_t serial;
    CUstream stream;
};

struct sg_thread {
    CUcontext *stack;
    uint32_t depth;
    bool per_thread_default; /* inside a _ptsz or _ptds entry point: stream 0 is the thread's own */
    uint32_t capture_mode;
    uint64_t zero_launches;
    uint64_t random;
    CUcontext current;
    struct sg_default_stream own[8];
    uint64_t id;
};

extern __thread struct sg_thread sg_thread __attribute__((tls_model("initial-exec")));

extern _Atomic bool sg_ready;     /* cuInit has succeeded */
extern uint32_t sg_visible_count; /* after CUDA_VISIBLE_DEVICES */
extern uint32_t sg_visible[SG_DEVICES];

#define NEED_INIT()                                                                                                    \
    do {                                                                                                               \
        if (UNLIKELY(!atomic_load_explicit(&sg_ready, memory_order_relaxed)))                                          \
            return sg_not_ready();                                                                                     \
    } while (0)
CUresult sg_not_ready(void);

/* The current context, or an error. */
CUresult sg_current(CUcontext *context);
/* Whether the context can still be worked with: destroyed, or its device lost. */
CUresult sg_why_unusable(CUcontext context);
static inline CUresult sg_usable(CUcontext context) {
    bool fine = LIKELY(sg_is(context, SG_CONTEXT_HANDLE)) && !sg_client.forked &&
                !atomic_load_explicit(&context->gone, memory_order_relaxed) &&
                !atomic_load_explicit(&sg_client.map.control->fault[context->device].lost, memory_order_relaxed);
    return LIKELY(fine) ? CUDA_SUCCESS : sg_why_unusable(context);
}
/* A stream argument: 0, the two named defaults, or a handle. */
CUresult sg_default_stream_of(CUstream given, CUstream *stream);
static inline CUresult sg_stream(CUstream given, CUstream *stream) {
    if (UNLIKELY((uintptr_t)given <= 2))
        return sg_default_stream_of(given, stream);
    *stream = given;
    return LIKELY(sg_is(given, SG_STREAM_HANDLE)) ? sg_usable(given->context) : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- work */

/* Puts an operation into the stream's queue, waiting for room if 1,024 are in flight. Fills in stamp and order. */
CUresult sg_push(CUstream stream, const struct sg_op *op, uint64_t *sequence, struct sg_stamp *stamp);
CUresult sg_wait_for(CUcontext context, uint32_t channel, uint64_t sequence);
bool sg_has_ended(CUcontext context, uint32_t channel, uint64_t sequence);
CUresult sg_wait_stream(CUstream stream);
CUresult sg_synchronize_context(CUcontext context);
/* A capture forbids: waiting for its streams, and calls that could break any capture of this process. */
CUresult sg_may_wait_for(CUstream stream);
CUresult sg_may_use(CUstream stream);
CUresult sg_check_unsafe_call(void);
/* The current context for a call that a capture may forbid. */
CUresult sg_begin_unsafe(CUcontext *context);
CUresult sg_load_module(CUmodule *module, const void *image, CUcontext context);
void sg_leave_capture(CUstream stream);
void sg_forget_blocks(CUcontext context);
void sg_send_managed_out(CUcontext context, uint64_t bytes);
CUfunction sg_function_of_kernel(void *kernel, CUcontext context);
CUresult sg_wait_context(CUcontext context);
CUresult sg_add_context(CUcontext context);
void sg_remove_context(CUcontext context);
bool sg_remove_context_at_exit(CUcontext context);
CUresult sg_use_channel(CUcontext context, uint32_t channel);

struct sg_stamp *sg_new_stamp(void);
void sg_release_stamp(struct sg_stamp *stamp);
/* The moment the event's operation ended, or 0. */
uint64_t sg_read_stamp(CUcontext context, uint32_t channel, uint64_t sequence, struct sg_stamp *stamp);

void sg_describe_function(struct CUfunc_st *function);
CUresult sg_launch(CUfunction function, CUstream stream, void **params, void **extra);
CUstream sg_new_stream(CUcontext context, unsigned flags, int priority);
/* Some context of the device, or NULL. */
CUcontext sg_context_on(uint32_t device);
CUresult sg_new_context(CUcontext *made, uint32_t device, unsigned flags, bool primary);
void sg_destroy_context(CUcontext context);

#endif
