/* The wrappers of everything that takes or gives back memory by a pointer.
 *
 * Each counts first, asks the driver, and takes the count back when the driver refuses: what is refused for the cap never
 * reaches the driver.  With `managed` what cannot page becomes what can, where the device allows it. */
#include "driver/contexts.h"
#include "memory/memory.h"
#include "turns/turns.h"
#include "wrappers/claims.h"
#include "wrappers/wrap.h"

#define PITCH 512

/* The GPU of the context that this thread allocated in last; void as soon as any context has ended. */
static __thread struct {
    CUcontext context;
    uint64_t generation;
    int gpu;
} last_seen;

/* The container's GPU of the current context; negative: not ours to count. */
static int gpu_for_memory(CUcontext *context) {
    if (inside_driver || !DRIVER_HAS(cuCtxGetCurrent) || driver.cuCtxGetCurrent(context) != CUDA_SUCCESS || !*context)
        return -1;
    uint64_t seen = atomic_load_explicit(&generation, memory_order_acquire);
    if (LIKELY(last_seen.context == *context) && LIKELY(last_seen.generation == seen))
        return last_seen.gpu;
    int gpu = turns_ready() ? locate_current() : -1;
    if (gpu >= 0) {
        last_seen.context = *context;
        last_seen.generation = seen;
        last_seen.gpu = gpu;
    }
    return gpu;
}

static void remember_pointer(CUdeviceptr pointer, uint64_t bytes, int gpu, enum memory_kind kind, CUcontext context) {
    memory_remember(&(struct allocation){.name = pointer, .bytes = bytes, .gpu = (signed char)gpu, .kind = kind & 3,
                                         .space = POINTER, .context = context});
}

/* The frame of every allocation by a pointer: `call` is the driver's. */
#define ALLOCATE(type, made, bytes, kind, call)                                                                         \
    CUcontext context = NULL;                                                                                           \
    int gpu = gpu_for_memory(&context);                                                                                 \
    if (gpu < 0)                                                                                                        \
        return UNCOUNTED(call);                                                                                         \
    enum memory_kind how = kind;                                                                                        \
    uint64_t size = bytes;                                                                                              \
    if (claims_make(gpu, how, size) != CUDA_SUCCESS)                                                                   \
        return CUDA_ERROR_OUT_OF_MEMORY;                                                                                \
    CUresult result = INSIDE(call);                                                                                          \
    if (result == CUDA_SUCCESS)                                                                                         \
        remember_pointer(*made, size, gpu, how, context);                                                               \
    else                                                                                                                \
        claims_return(gpu, how, size);                                                                                  \
    return result

static CUresult allocate_as(enum memory_kind kind, CUdeviceptr *pointer, size_t bytes) {
    return kind == PAGEABLE ? driver.cuMemAllocManaged(pointer, bytes, CU_MEM_ATTACH_GLOBAL)
                            : driver.cuMemAlloc_v2(pointer, bytes);
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
    if (!DRIVER_HAS(cuMemAlloc_v2))
        return CUDA_ERROR_NOT_FOUND;
    ALLOCATE(CUdeviceptr, dptr, bytesize, gpu >= 0 && memory_is_managed(gpu) ? PAGEABLE : UNPAGEABLE,
             allocate_as(gpu >= 0 && memory_is_managed(gpu) ? PAGEABLE : UNPAGEABLE, dptr, bytesize));
}

EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize) {
    if (!DRIVER_HAS(cuMemAlloc))
        return CUDA_ERROR_NOT_FOUND;
    ALLOCATE(CUdeviceptr_v1, dptr, bytesize, UNPAGEABLE, driver.cuMemAlloc(dptr, bytesize));
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags) {
    if (!DRIVER_HAS(cuMemAllocManaged))
        return CUDA_ERROR_NOT_FOUND;
    ALLOCATE(CUdeviceptr, dptr, bytesize, OWN_MANAGED, driver.cuMemAllocManaged(dptr, bytesize, flags));
}

static uint64_t pitch_for(uint64_t width) {
    return width > UINT64_MAX - PITCH ? UINT64_MAX : (width + PITCH - 1) / PITCH * PITCH;
}

static CUresult allocate_rows(bool is_managed, CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element) {
    if (!is_managed || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return driver.cuMemAllocPitch_v2(pointer, pitch, width, height, element);
    CUresult result = driver.cuMemAllocManaged(pointer, pitch_for(width) * height, CU_MEM_ATTACH_GLOBAL);
    if (result == CUDA_SUCCESS)
        *pitch = pitch_for(width);
    return result;
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                   unsigned int ElementSizeBytes) {
    if (!DRIVER_HAS(cuMemAllocPitch_v2))
        return CUDA_ERROR_NOT_FOUND;
    ALLOCATE(CUdeviceptr, dptr, memory_product(pitch_for(WidthInBytes), Height),
             gpu >= 0 && memory_is_managed(gpu) ? PAGEABLE : UNPAGEABLE,
             allocate_rows(gpu >= 0 && memory_is_managed(gpu), dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
}

EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes, unsigned int Height,
                                unsigned int ElementSizeBytes) {
    if (!DRIVER_HAS(cuMemAllocPitch))
        return CUDA_ERROR_NOT_FOUND;
    ALLOCATE(CUdeviceptr_v1, dptr, memory_product(pitch_for(WidthInBytes), Height), UNPAGEABLE,
             driver.cuMemAllocPitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
}

/* ------------------------------------------------------------------------------------------------ given back */

#define GIVE_BACK(function, space, name, arguments)                                                                     \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    CUresult result = driver.function arguments;                                                                        \
    int gpu = result == CUDA_SUCCESS ? claims_forget(space, (uint64_t)(name)) : -1;                                     \
    if (UNLIKELY(gpu >= 0))                                                                                             \
        claims_settle_pools(gpu);                                                                                              \
    return result

EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr) { GIVE_BACK(cuMemFree_v2, POINTER, dptr, (dptr)); }

EXPORT CUresult cuMemFree(CUdeviceptr_v1 dptr) { GIVE_BACK(cuMemFree, POINTER, dptr, (dptr)); }

EXPORT CUresult cuArrayDestroy(CUarray hArray) { GIVE_BACK(cuArrayDestroy, ARRAY, (uintptr_t)hArray, (hArray)); }

EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
    GIVE_BACK(cuMipmappedArrayDestroy, MIPMAP, (uintptr_t)hMipmappedArray, (hMipmappedArray));
}
