/* Handles of contexts, streams, events and so on.
 *
 * The rule: memory of one kind of handle keeps that kind for ever. So a stale handle is refused, and never followed. */
#ifndef SIMGPU_HANDLES_H
#define SIMGPU_HANDLES_H

#include "driver/abi/api.h"

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
    SG_GREEN_HANDLE,
    SG_DESCRIPTION_HANDLE,
    SG_HANDLE_KINDS
};

struct sg_handle {
    enum sg_handle_kind kind; /* the first field of every handle; SG_NO_HANDLE after it is destroyed */
    struct sg_handle *next_free;
};

void *sg_new_handle(enum sg_handle_kind kind, size_t bytes);
void sg_free_handle(void *handle, enum sg_handle_kind kind);
static inline bool sg_is(const void *handle, enum sg_handle_kind kind) {
    return handle && ((const struct sg_handle *)handle)->kind == kind;
}

#endif
