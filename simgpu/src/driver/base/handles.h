/* Handles: memory of one kind stays of that kind, so a stale handle is refused instead of followed. */
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

#endif
