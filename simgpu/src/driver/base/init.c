/* cuInit, versions, and which devices this process sees (as CUDA_VISIBLE_DEVICES and the container's runtime say). */
#include "init.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/file/visible.h"
#include "shared/process/client.h"
#include "shared/process/host_pages.h"
#include "shared/process/locks.h"

_Atomic bool sg_ready;
uint32_t sg_visible_count;
uint32_t sg_visible[SG_DEVICES];
bool sg_stretches;

static struct sg_mutex init_lock = SG_MUTEX(SG_RANK_INIT);

static _Atomic bool ended;

void sg_misuse(const char *what) {
    if (!sg_client.settings.misuse_aborts)
        return;
    fprintf(stderr, "simgpu: MISUSE: %s; a real driver may crash or hang here (SIMGPU_MISUSE=refuse answers an error)\n",
            what);
    abort();
}

CUresult sg_not_ready(void) {
    if (!atomic_load(&ended) || sg_client.forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    sg_misuse("a call of the driver after its exit handler");
    return CUDA_ERROR_DEINITIALIZED;
}

/* The driver's own exit handler: cuda.h calls it "the driver is in the process of shutting down". */
static void end(void) {
    atomic_store(&ended, true);
    atomic_store(&sg_ready, false);
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
    const struct sg_settings *settings = &sg_client.settings;
    sg_stretches = settings->stretch_before_ns || settings->stretch_after_ns || settings->launch_cost_ns ||
                   settings->event_cost_ns || settings->query_cost_ns;
    atexit(end);
    if (settings->charges_host_pages && !sg_start_host_pages()) {
        fprintf(stderr, "simgpu: SIMGPU_HOST_PAGES=on needs a thread and address space; raise ulimit -v and -u\n");
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    pthread_atfork(NULL, NULL, become_unready);
    atomic_store(&sg_ready, true);
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags) {
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_client.forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (atomic_load(&ended))
        return sg_not_ready();
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
