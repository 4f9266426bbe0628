/* cuGetProcAddress: from the base name, the version asked for and the stream flavour to one of our entry points. */
#include <string.h>

#include "driver/abi/api.h"

#define PER_THREAD 2u
#define LEGACY 1u
#define REFUSES_NEWER 13000 /* drivers 580 and 595 refuse versions above their own; 535 and 555 answer what they have */

enum found { FOUND = 0, NO_SYMBOL = 1, TOO_OLD = 2 };

struct entry_point {
    const char *base, *symbol;
    int version;
    void *function;
};

#define ROW(base, symbol, version) {#base, #symbol, version, (void *)symbol},
#define API(symbol, base, version, ...) ROW(base, symbol, version)
#define PTSZ(symbol, base, version, per_thread_version, ...)                                                           \
    ROW(base, symbol, version) ROW(base, symbol##_ptsz, per_thread_version)
#define PTDS(symbol, base, version, per_thread_version, ...)                                                           \
    ROW(base, symbol, version) ROW(base, symbol##_ptds, per_thread_version)
#define NONE(symbol, base, version) ROW(base, symbol, version)
static const struct entry_point ENTRY_POINTS[] = {
#include "driver/abi/api.def"
};
#undef API
#undef PTSZ
#undef PTDS
#undef NONE

static bool is_per_thread(const struct entry_point *entry) {
    size_t length = strlen(entry->symbol), suffix = strlen("_ptsz");
    const char *end = entry->symbol + (length > suffix ? length - suffix : 0);
    return strcmp(end, "_ptsz") == 0 || strcmp(end, "_ptds") == 0;
}

static bool has_per_thread(const char *base, int driver) {
    for (size_t i = 0; i < COUNT(ENTRY_POINTS); i++)
        if (strcmp(ENTRY_POINTS[i].base, base) == 0 && ENTRY_POINTS[i].version <= driver &&
            is_per_thread(&ENTRY_POINTS[i]))
            return true;
    return false;
}

/* The newest form that is not newer than asked for.
 *
 * As NVIDIA's driver answers: a form that is newer than the driver does not exist.  Where a name has forms for the thread's
 * own stream, a caller who wants those gets no other. */
static enum found find(const char *base, int version, int driver, bool per_thread, void **function) {
    enum found found = NO_SYMBOL;
    int best = -1;
    bool wants_own = per_thread && has_per_thread(base, driver);
    for (size_t i = 0; i < COUNT(ENTRY_POINTS); i++) {
        const struct entry_point *entry = &ENTRY_POINTS[i];
        if (strcmp(entry->base, base) != 0 || entry->version > driver)
            continue;
        if (found == NO_SYMBOL)
            found = TOO_OLD;
        if (is_per_thread(entry) != wants_own || entry->version > version || entry->version < best)
            continue;
        found = FOUND;
        best = entry->version;
        *function = entry->function;
    }
    return found;
}

static CUresult look_up(const char *symbol, void **function, int version, cuuint64_t flags, enum found *found) {
    int driver;
    if (!symbol || !*symbol || !function || flags & ~(cuuint64_t)(LEGACY | PER_THREAD))
        return CUDA_ERROR_INVALID_VALUE;
    cuDriverGetVersion(&driver);
    if (version > driver && driver >= REFUSES_NEWER)
        return CUDA_ERROR_INVALID_VALUE;
    *function = NULL;
    *found = find(symbol, version, driver, flags & PER_THREAD, function);
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
