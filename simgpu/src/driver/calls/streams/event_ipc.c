/* Events for several processes: handles of 64 bytes, opened in another process.
 *
 * The rule of cuda.h: the event was made with CU_EVENT_INTERPROCESS and CU_EVENT_DISABLE_TIMING; an opened event behaves
 * like one of this process without timing.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/allocations/exports.h"
#include "driver/base/thread.h"
#include "event.h"

#define DISABLE_TIMING 2u
#define INTERPROCESS 4u

static struct sg_shared_moment *map_moment(int descriptor) {
    void *at = mmap(NULL, SG_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return at == MAP_FAILED ? NULL : at;
}

static bool is_exportable(CUevent event) {
    return sg_is(event, SG_EVENT_HANDLE) && event->flags & INTERPROCESS && !event->is_imported;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event) {
    NEED_INIT();
    struct sg_export exported;
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_exportable(event) || !sg_describe_export(event->descriptor, SG_EXPORT_EVENT, &exported))
        return CUDA_ERROR_INVALID_HANDLE;
    exported.process = (int32_t)getpid();
    exported.descriptor = event->descriptor;
    memset(handle, 0, sizeof *handle);
    memcpy(handle->reserved, &exported, sizeof exported);
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *made, CUipcEventHandle given) {
    NEED_INIT();
    CUcontext context;
    struct sg_export handle;
    CUresult result = sg_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!made)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&handle, given.reserved, sizeof handle);
    if (sg_is_own_export(&handle))
        return CUDA_ERROR_INVALID_CONTEXT;
    int descriptor = sg_open_export(&handle, SG_EXPORT_EVENT);
    struct sg_shared_moment *shared = descriptor >= 0 ? map_moment(descriptor) : NULL;
    if (descriptor >= 0)
        close(descriptor);
    if (!shared)
        return CUDA_ERROR_INVALID_HANDLE;
    *made = sg_new_event(context, DISABLE_TIMING);
    if (!*made) {
        munmap(shared, SG_PAGE);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*made)->shared = shared;
    (*made)->is_imported = true;
    return CUDA_SUCCESS;
}

bool sg_share_event(CUevent event) {
    struct sg_export made;
    if (!sg_make_export(SG_EXPORT_EVENT, event->context->device, SG_PAGE, &made))
        return false;
    event->descriptor = made.descriptor;
    event->shared = map_moment(made.descriptor);
    if (!event->shared)
        close(made.descriptor);
    return event->shared != NULL;
}

void sg_unshare_event(CUevent event) {
    if (event->shared)
        munmap(event->shared, SG_PAGE);
    if (event->shared && !event->is_imported)
        close(event->descriptor);
    event->shared = NULL;
}
