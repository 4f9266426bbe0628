/* IPC of plain memory: handles of 64 bytes, opened in another process.
 *
 * The rule of cuda.h and of the driver: only memory of cuMemAlloc has a handle.  Managed, pooled, virtual and host memory is
 * CUDA_ERROR_INVALID_VALUE.  A process cannot open its own handle (CUDA_ERROR_INVALID_CONTEXT).
 */
#include <stdlib.h>
#include <string.h>

#include "driver/allocations/exports.h"
#include "driver/base/thread.h"
#include "driver/graphs/capture.h"
#include "shared/process/locks.h"

#define LAZY_PEER_ACCESS 1u

/* A handle that a context has opened. */
struct opened {
    CUcontext context;
    uint64_t token, start, block_id;
    unsigned references;
    struct opened *next;
};

static struct sg_mutex ipc_lock = SG_MUTEX(SG_RANK_MAPPINGS);
static struct opened *all;

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
    NEED_INIT();
    struct sg_block *block = sg_find_block(pointer);
    if (!handle || !block || block->kind != SG_PLAIN)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock(&ipc_lock);
    const struct sg_export *exported = sg_export_block(block);
    sg_unlock(&ipc_lock);
    if (!exported)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(handle, 0, sizeof *handle);
    memcpy(handle->reserved, exported, sizeof *exported);
    return CUDA_SUCCESS;
}

/* Whether the block is still what was mapped then: the context's end unmaps it without a word. */
static bool is_there(const struct opened *opened) {
    const struct sg_block *block = sg_find_block(opened->start);
    return block && block->kind == SG_IMPORTED && block->id == opened->block_id;
}

static void forget_gone(void) {
    for (struct opened **at = &all; *at;) {
        struct opened *one = *at;
        if (is_there(one)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        free(one);
    }
}

static CUresult open_new(CUdeviceptr *pointer, const struct sg_export *handle, CUcontext context) {
    struct opened *opened = calloc(1, sizeof *opened);
    struct sg_block *block = opened ? sg_import_block(handle, context) : NULL;
    if (!block) {
        free(opened);
        return opened ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    *opened = (struct opened){context, handle->token, block->start, block->id, 1, all};
    all = opened;
    *pointer = block->start;
    return CUDA_SUCCESS;
}

static CUresult open_handle(CUdeviceptr *pointer, const struct sg_export *handle, CUcontext context) {
    forget_gone();
    for (struct opened *one = all; one; one = one->next) {
        if (one->context == context && one->token == handle->token) {
            one->references++;
            *pointer = one->start;
            return CUDA_SUCCESS;
        }
    }
    return open_new(pointer, handle, context);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle given, unsigned flags) {
    CUcontext context;
    struct sg_export handle;
    CUresult result = sg_begin_unsafe(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pointer || flags != LAZY_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&handle, given.reserved, sizeof handle);
    if (sg_is_own_export(&handle))
        return CUDA_ERROR_INVALID_CONTEXT;
    sg_lock(&ipc_lock);
    result = open_handle(pointer, &handle, context);
    sg_unlock(&ipc_lock);
    return result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned flags) {
    return cuIpcOpenMemHandle_v2(pointer, handle, flags);
}

static CUresult close_handle(CUdeviceptr pointer, CUcontext context) {
    forget_gone();
    struct opened **at = &all;
    while (*at && ((*at)->start != pointer || (*at)->context != context))
        at = &(*at)->next;
    struct opened *one = *at;
    if (!one)
        return CUDA_ERROR_INVALID_VALUE;
    if (--one->references)
        return CUDA_SUCCESS;
    *at = one->next;
    free(one);
    sg_remove_block(sg_find_block(pointer));
    return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
    CUcontext context;
    CUresult result = sg_begin_unsafe(&context);
    if (result != CUDA_SUCCESS)
        return result;
    sg_lock(&ipc_lock);
    result = close_handle(pointer, context);
    sg_unlock(&ipc_lock);
    return result;
}
