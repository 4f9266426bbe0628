#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

struct driver driver;

struct wanted {
    const char *name;
    int version;
    size_t offset;
};

#define DRIVER(name, version) {#name, version, offsetof(struct driver, name)},
static const struct wanted WANTED[] = {
#include "driver.def"
};
#undef DRIVER

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CUresult loaded = CUDA_ERROR_STUB_LIBRARY;

static CUresult not_supported(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

static void look_up(const struct wanted *wanted) {
    void **place = (void **)((char *)&driver + wanted->offset);
    CUdriverProcAddressQueryResult found;
    if (driver.get_proc_address(wanted->name, place, wanted->version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) ||
        !*place)
        *(CUresult(**)(void))place = not_supported;
}

static void load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return;
    *(void **)&driver.get_proc_address = dlsym(library, "cuGetProcAddress_v2");
    if (!driver.get_proc_address)
        return;
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++)
        look_up(&WANTED[i]);
    loaded = driver.cuInit(0);
}

CUresult driver_load(void) {
    pthread_once(&once, load);
    return loaded;
}
