/* cuGetProcAddress: from the base name, the version asked for and the stream flavour to one of our entry points. */
#include <string.h>

#include "driver/abi/api.h"

#define PER_THREAD 2u
#define LEGACY 1u

enum found { FOUND = 0, NO_SYMBOL = 1, TOO_OLD = 2 };

struct entry_point {
    const char *base;
    int version, per_thread_version;
    void *function, *per_thread;
};

#define API(symbol, base, version, ...) {#base, version, 0, (void *)symbol, NULL},
#define PTSZ(symbol, base, version, per_thread_version, ...)                                                           \
    {#base, version, per_thread_version, (void *)symbol, (void *)symbol##_ptsz},
#define PTDS(symbol, base, version, per_thread_version, ...)                                                           \
    {#base, version, per_thread_version, (void *)symbol, (void *)symbol##_ptds},
#define NONE(symbol, base, version) {#base, version, 0, (void *)symbol, NULL},
static const struct entry_point ENTRY_POINTS[] = {
#include "driver/abi/api.def"
};
#undef API
#undef PTSZ
#undef PTDS
#undef NONE

/* The newest that is not newer than asked for. */
static enum found find(const char *base, int version, bool per_thread, void **function) {
    enum found found = NO_SYMBOL;
    int best = -1;
    for (size_t i = 0; i < COUNT(ENTRY_POINTS); i++) {
        const struct entry_point *entry = &ENTRY_POINTS[i];
        if (strcmp(entry->base, base) != 0)
            continue;
        if (found == NO_SYMBOL)
            found = TOO_OLD;
        if (entry->version > version || entry->version < best)
            continue;
        found = FOUND;
        best = entry->version;
        *function = per_thread && entry->per_thread && entry->per_thread_version <= version ? entry->per_thread
                                                                                             : entry->function;
    }
    return found;
}

static CUresult look_up(const char *symbol, void **function, int version, cuuint64_t flags, enum found *found) {
    int driver;
    if (!symbol || !*symbol || !function || flags & ~(cuuint64_t)(LEGACY | PER_THREAD))
        return CUDA_ERROR_INVALID_VALUE;
    cuDriverGetVersion(&driver);
    if (version > driver)
        return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    *found = find(symbol, version, flags & PER_THREAD, function);
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
    enum found found = NO_SYMBOL;
    CUresult result = look_up(symbol, function, version, flags, &found);
    if (result == CUDA_SUCCESS && status)
        *status = (CUdriverProcAddressQueryResult)found;
    return result;
}

/* Of CUDA 11: it has no status, so what is not there is an error. */
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags) {
    enum found found = NO_SYMBOL;
    CUresult result = look_up(symbol, function, version, flags, &found);
    return result == CUDA_SUCCESS && found != FOUND ? CUDA_ERROR_NOT_FOUND : result;
}
