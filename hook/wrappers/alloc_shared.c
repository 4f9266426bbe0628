/* The wrappers of calls that give memory to other processes or to network cards.
 *
 * The rule: they change nothing.  The driver refuses them for managed memory, and a program that asked for ordinary memory
 * cannot know why: it is said once, with the annotation that helps. */
#include <stdatomic.h>

#include "driver/contexts.h"
#include "memory/memory.h"
#include "nvshare_contract.h"
#include "process/log.h"
#include "turns/turns.h"
#include "wrappers/wrap.h"

enum { CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6 };

/* The memory is pageable because we made it so.  A pointer into its middle is not in the list; then the container's kind of
 * memory decides. */
static bool was_made_managed(CUdeviceptr pointer) {
    enum memory_kind kind;
    int gpu = turns_ready_soon() ? locate_current() : -1;
    return gpu >= 0 && memory_is_managed(gpu) && (!memory_find_kind(POINTER, pointer, &kind) || kind == PAGEABLE);
}

static CUresult explain(CUresult result, const char *function, const char *use, CUdeviceptr pointer, atomic_flag *told) {
    if (result != CUDA_SUCCESS && was_made_managed(pointer) && !atomic_flag_test_and_set(told))
        say("%s was refused, since the memory of this container is managed, which cannot be used for %s. The pod needs the"
            " annotation %s: plain",
            function, use, NVSHARE_NAMES_ALLOCATION);
    return result;
}

#define EXPLAINED(function, use, pointer, arguments)                                                                    \
    static atomic_flag told = ATOMIC_FLAG_INIT;                                                                         \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    return explain(driver.function arguments, #function, use, pointer, &told)

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
    EXPLAINED(cuIpcGetMemHandle, "CUDA IPC", dptr, (pHandle, dptr));
}

EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType handleType,
                                              unsigned long long flags) {
    EXPLAINED(cuMemGetHandleForAddressRange, "RDMA", dptr, (handle, dptr, size, handleType, flags));
}

EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr) {
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return DRIVER_HAS(cuPointerSetAttribute) ? driver.cuPointerSetAttribute(value, attribute, ptr) : CUDA_ERROR_NOT_FOUND;
    EXPLAINED(cuPointerSetAttribute, "RDMA", ptr, (value, attribute, ptr));
}
