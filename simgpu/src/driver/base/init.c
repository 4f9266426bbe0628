/* cuInit, versions, and which devices this process sees (as CUDA_VISIBLE_DEVICES and the container's runtime say). */
#include "init.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/file/visible.h"
#include "shared/process/client.h"
#include "shared/process/locks.h"

_Atomic bool sg_ready;
uint32_t sg_visible_count;
uint32_t sg_visible[SG_DEVICES];
bool sg_stretches;

static struct sg_mutex init_lock = SG_MUTEX(SG_RANK_INIT);

CUresult sg_not_ready(void) {
    return CUDA_ERROR_NOT_INITIALIZED;
}

/* as the driver does: a forked child of a process that used CUDA cannot use it */
static void become_unready(void) {
    atomic_store(&sg_ready, false);
}

static CUresult init_once(void) {
    if (!sg_attach())
        return CUDA_ERROR_SYSTEM_NOT_READY;
    sg_visible_count = sg_visible_devices(sg_client.map.header, sg_visible, true);
    if (sg_visible_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    sg_stretches = sg_client.settings.stretch_before_ns || sg_client.settings.stretch_after_ns;
    pthread_atfork(NULL, NULL, become_unready);
    atomic_store(&sg_ready, true);
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags) {
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_client.forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    sg_lock(&init_lock);
    CUresult result = atomic_load(&sg_ready) ? CUDA_SUCCESS : init_once();
    sg_unlock(&init_lock);
    return result;
}

CUresult cuDriverGetVersion(int *version) {
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    const char *text = getenv("SIMGPU_DRIVER_VERSION");
    *version = text && atoi(text) > 0 ? atoi(text) : 13040;
    return CUDA_SUCCESS;
}
