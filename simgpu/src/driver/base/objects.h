/* The objects behind the handles of contexts, streams, events, modules and functions. */
#ifndef SIMGPU_OBJECTS_H
#define SIMGPU_OBJECTS_H

#include "handles.h"
#include "shared/file/layout.h"
#include "shared/process/locks.h"

struct sg_stamp; /* when an event's operation ended */

struct sg_queue {
    struct sg_mutex lock;
    _Atomic uint64_t tail;
    uint64_t head_seen; /* the device had come at least this far */
    struct sg_stamp **stamps;
};

struct sg_capture;

struct CUctx_st {
    struct sg_handle handle;
    uint32_t index, serial, device, flags;
    bool primary;
    _Atomic bool gone;
    _Atomic uint64_t order;
    _Atomic uint32_t captures; /* the number of captures of blocking streams that go on now */
    _Atomic uint32_t all_captures;
    uint64_t id;
    unsigned api_version;
    size_t limit[16];
    CUfunc_cache cache_config;
    struct CUstream_st *legacy, *streams;
    struct sg_mutex lock;
    uint32_t next_channel;
    uint64_t peers; /* the devices whose memory it may use */
    struct CUctx_st *next;
    struct sg_queue queue[SG_CHANNELS];
};

struct CUstream_st {
    struct sg_handle handle;
    CUcontext context;
    uint32_t channel, flags;
    int priority;
    uint64_t id;
    _Atomic uint64_t last; /* the sequence of its last operation, plus one */
    _Atomic(struct sg_capture *) capture;
    bool legacy;
    CUgreenCtx green; /* the green context that it was made in, or NULL */
    struct CUgraphNode_st **frontier; /* while it captures: the nodes that its next node will wait for */
    size_t frontier_count;
    struct CUstream_st *next_member; /* of the same capture */
    CUstreamAttrValue attribute[24];
    struct CUstream_st *next;
};

/* Where an event of several processes was recorded last. It lies in a memory file that they all map.
 * A recorder takes a ticket, fills the ticket's mark and then shows it. So one that is killed in between blocks nobody. */
struct sg_shared_moment {
    _Atomic uint64_t tickets, shown; /* shown: 0, or the last complete ticket plus one */
    struct {
        _Atomic uint64_t target, sequence; /* as in an operation that waits */
    } mark[64];
};

struct CUevent_st {
    struct sg_handle handle;
    CUcontext context;
    struct sg_shared_moment *shared; /* of an event for several processes */
    int descriptor;                  /* of the memory file, in the process that made the event */
    bool is_imported;
    unsigned flags;
    bool recorded;
    uint32_t channel;
    uint64_t sequence;
    struct sg_stamp *stamp;
    uint64_t capture_id; /* the capture that it was last recorded in; 0: in none */
    struct CUgraphNode_st **capture_nodes;
    size_t capture_node_count;
};

struct CUmod_st {
    struct sg_handle handle;
    CUcontext context;
    char *entries; /* the names that a PTX text defines, each ended by \n; NULL: any name exists */
    struct CUfunc_st *functions;
    uint32_t loading;
};

#define SG_FUNCTION_ATTRIBUTES 18

/* What a program has set of a function or kernel; the rest has its default, which depends on the card. */
struct sg_attributes {
    uint32_t set; /* bit i: value[i] counts */
    int value[SG_FUNCTION_ATTRIBUTES];
};

struct CUfunc_st {
    struct sg_handle handle;
    CUmodule module;
    char *name;
    bool length_is_param, is_idle; /* is_idle: its length is 0, whatever its parameters are */
    uint32_t partners;
    uint64_t length_ns, group_key;
    struct sg_attributes attributes;
    unsigned block[3]; /* set by cuFuncSetBlockShape */
    uint64_t param;    /* set by cuParamSet* */
    struct CUfunc_st *next;
    struct CUkern_st *kernel;
};

#endif
