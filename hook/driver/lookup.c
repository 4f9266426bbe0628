/* Every way a program finds a driver function leads to our wrapper: dlsym, dlvsym, cuGetProcAddress; linking does by itself,
 * and dlopen sees to it that a library's own links do.
 *
 * The rule: the real look-up is asked first and its answer kept; only when it found the driver's own function is the
 * pointer swapped.  A look-up that is not for CUDA is jumped to, not called: RTLD_NEXT goes by the caller's address, as the
 * search path and $ORIGIN of a dlopen do. */
#define _GNU_SOURCE
#include "driver/lookup.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "driver/driver.h"
#include "driver/entries.h"
#include "process/cancel.h"
#include "process/log.h"

#if defined(__has_attribute)
#if __has_attribute(musttail)
#define JUMP __attribute__((musttail)) return
#endif
#endif
#ifndef JUMP
#define JUMP return /* gcc makes a jump of it at -O2; tests/hook look at the machine code */
#endif

#define NEWEST_VERSION 13040 /* of the headers that the table was held against */

static _Atomic(dlsym_function *) real_dlsym; /* threads may find them at once */
static _Atomic(dlvsym_function *) real_dlvsym;
static _Atomic(dlopen_function *) real_dlopen;
static atomic_flag setting = ATOMIC_FLAG_INIT;
static atomic_flag told_newer = ATOMIC_FLAG_INIT;

static void find_libc(void) {
    real_dlsym = (dlsym_function *)libc_function("dlsym");
    real_dlvsym = (dlvsym_function *)libc_function("dlvsym");
    real_dlopen = (dlopen_function *)libc_function("dlopen");
}

/* They return what they found: gcc reads an atomic pointer plainly where it calls through it. */
static dlsym_function *libc_dlsym(void) {
    if (UNLIKELY(!real_dlsym))
        find_libc();
    return real_dlsym;
}

static dlvsym_function *libc_dlvsym(void) {
    if (UNLIKELY(!real_dlvsym))
        find_libc();
    return real_dlvsym;
}

static dlopen_function *libc_dlopen(void) {
    if (UNLIKELY(!real_dlopen))
        find_libc();
    return real_dlopen;
}

/* ------------------------------------------------------------------------------------------------ the driver */

static const char *const cuda_names[] = {"libcuda.so.1", "libcuda.so", NULL};
static const char *const nvml_names[] = {"libnvidia-ml.so.1", "libnvidia-ml.so", NULL};

struct library {
    const char *const *names;
    void *_Atomic handle;
    atomic_bool filled;
};
static struct library cuda = {.names = cuda_names}, nvml = {.names = nvml_names};

static struct library *library_of(const char *symbol) { return symbol[0] == 'n' ? &nvml : &cuda; }

static void *open_library(struct library *library, int flags) {
    void *handle = atomic_load(&library->handle);
    if (handle)
        return handle;
    for (int i = 0; !handle && library->names[i]; i++)
        handle = dlopen(library->names[i], RTLD_LAZY | flags);
    if (handle)
        atomic_store(&library->handle, handle); /* kept for good: an application's dlclose must not pull it from under us */
    return handle;
}

static void **place_at(size_t place) { return (void **)((char *)&driver + place); }

static void *known(const struct entry *entry) { return __atomic_load_n(place_at(entry->real), __ATOMIC_ACQUIRE); }

/* The first to find it says what it is, and nobody writes it again: calls read it plainly. Nothing is asked under the flag. */
static void set_place(const struct entry *entry, void *function) {
    NOT_CANCELLED;
    while (atomic_flag_test_and_set_explicit(&setting, memory_order_acquire))
        sched_yield();
    if (function && !known(entry))
        __atomic_store_n(place_at(entry->real), function, __ATOMIC_RELEASE);
    atomic_flag_clear_explicit(&setting, memory_order_release);
}

void lookup_after_fork(void) { atomic_flag_clear(&setting); }

/* Without a lock: the loader has one of its own, under which a library's constructor may come here, too. Threads that fill at
 * once find the same. */
static void fill(struct library *library) {
    NOT_CANCELLED;
    void *handle = open_library(library, 0);
    for (unsigned i = 0; handle && i < entry_count; i++) {
        const struct entry *entry = &entries[i];
        if (library_of(entry->symbol) == library && !known(entry))
            set_place(entry, libc_dlsym()(handle, entry->symbol));
    }
    if (handle)
        atomic_store(&library->filled, true);
}

bool driver_has(size_t place) {
    bool of_nvml = place >= offsetof(struct driver, nvmlDeviceGetMemoryInfo);
    struct library *library = of_nvml ? &nvml : &cuda;
    if (!atomic_load(&library->filled))
        fill(library);
    return __atomic_load_n(place_at(place), __ATOMIC_ACQUIRE) != NULL;
}

/* ------------------------------------------------------------------------------------------------ dlsym */

/* Letter by letter: a sanitizer's runtime asks for strncmp here before its own can be called. */
static bool may_be_ours(const char *name) {
    return name && ((name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z') ||
                    (name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l'));
}

static const struct entry *find_entry(const char *symbol) {
    unsigned low = 0, high = entry_count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        int order = strcmp(symbol, entries[middle].symbol);
        if (!order)
            return entries[middle].wrapper ? &entries[middle] : NULL;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* The wrapper when `theirs`, which the real look-up found, is the driver's function or our own; else `theirs`. */
static void *swap_found(const struct entry *entry, void *theirs) {
    struct library *library = library_of(entry->symbol);
    if (!open_library(library, RTLD_NOLOAD))
        return theirs == entry->wrapper ? NULL : theirs;
    if (!atomic_load(&library->filled))
        fill(library);
    return theirs == entry->wrapper || theirs == known(entry) ? entry->wrapper : theirs;
}

static bool is_search_order(const void *handle) { return handle == RTLD_NEXT || handle == RTLD_DEFAULT; }

/* A NULL that dlerror can explain. */
static void *fail_to_find(const char *name) {
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return libc ? libc_dlsym()(libc, name) : NULL;
}

static void *look_up(void *handle, const char *name, const struct entry *entry) {
    void *from = handle;
    if (is_search_order(handle))
        from = open_library(library_of(name), RTLD_NOLOAD);
    void *theirs = from || !is_search_order(handle) ? libc_dlsym()(from, name) : NULL;
    if (!theirs)
        return is_search_order(handle) ? fail_to_find(name) : NULL;
    void *answer = swap_found(entry, theirs);
    return answer ? answer : fail_to_find(name);
}

/* A name of the driver's that is not ours to swap. */
static void look_at_stranger(const char *name) {
    if (name[0] == 'c' && lookup_is_risky(name) && open_library(&cuda, RTLD_NOLOAD) && libc_dlsym()(cuda.handle, name))
        lookup_tell_unknown(name);
}

static const struct entry *entry_of(const char *name) {
    const struct entry *entry = find_entry(name);
    if (!entry)
        look_at_stranger(name);
    return entry;
}

EXPORT void *dlsym(void *restrict handle, const char *restrict name) {
    const struct entry *entry = UNLIKELY(may_be_ours(name)) ? entry_of(name) : NULL;
    if (LIKELY(!entry))
        JUMP libc_dlsym()(handle, name);
    return look_up(handle, name, entry);
}

EXPORT void *dlvsym(void *restrict handle, const char *restrict name, const char *restrict version) {
    const struct entry *entry = UNLIKELY(may_be_ours(name)) ? entry_of(name) : NULL;
    if (LIKELY(!entry))
        JUMP libc_dlvsym()(handle, name, version);
    void *theirs = is_search_order(handle) ? NULL : libc_dlvsym()(handle, name, version);
    return theirs ? swap_found(entry, theirs) : look_up(handle, name, entry);
}

/* A library that is loaded with RTLD_DEEPBIND finds the driver and the C library's dlsym before ours: it would be without turns
 * and caps.  It is loaded without that flag, which musl does not have. */
EXPORT void *dlopen(const char *file, int flags) {
    JUMP libc_dlopen()(file, flags & ~RTLD_DEEPBIND);
}

/* ------------------------------------------------------------------------------------------------ cuGetProcAddress */

/* Of the forms of a name, the newest that the version allows; of the two default streams the one the flags name. */
static const struct entry *find_form(const char *base, int version, cuuint64_t flags) {
    int per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    const struct entry *best = NULL;
    for (unsigned i = 0; i < entry_count; i++) {
        const struct entry *entry = &entries[i];
        if (strcmp(entry->base, base) || entry->since > version || entry->is_per_thread > per_thread)
            continue;
        if (!best || entry->is_per_thread > best->is_per_thread ||
            (entry->is_per_thread == best->is_per_thread && entry->since > best->since))
            best = entry;
    }
    return best && best->wrapper ? best : NULL;
}

/* The form whose function the driver has answered.  An older driver answers an older form than the version has: with fewer
 * parameters, perhaps.  `best` where that says nothing. */
static const struct entry *answered_form(const struct entry *best, const void *answer) {
    if (known(best) == answer)
        return best;
    for (unsigned i = 0; i < entry_count; i++)
        if (entries[i].wrapper && known(&entries[i]) == answer && !strcmp(entries[i].base, best->base))
            return &entries[i];
    return best;
}

static void swap_answer(const char *symbol, void **answer, int version, cuuint64_t flags) {
    const struct entry *entry = may_be_ours(symbol) ? find_form(symbol, version, flags) : NULL;
    if (!answer || !*answer)
        return;
    if (!entry && may_be_ours(symbol) && symbol[0] == 'c' && lookup_is_risky(symbol))
        lookup_tell_unknown(symbol);
    if (!entry)
        return;
    entry = answered_form(entry, *answer);
    set_place(entry, *answer);
    if (version > NEWEST_VERSION && *answer != known(entry)) { /* perhaps of other parameters: not ours to wrap */
        if (!atomic_flag_test_and_set(&told_newer))
            say("%s of CUDA %d.%d is newer than this hook: what is started by it is not scheduled; upgrade nvshare-guard",
                symbol, version / 1000, version % 1000 / 10);
        return;
    }
    *answer = entry->wrapper;
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags) {
    if (!DRIVER_HAS(cuGetProcAddress))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver.cuGetProcAddress(symbol, pfn, cudaVersion, flags);
    if (result == CUDA_SUCCESS)
        swap_answer(symbol, pfn, cudaVersion, flags);
    return result;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *symbolStatus) {
    if (!DRIVER_HAS(cuGetProcAddress_v2))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver.cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
    if (result == CUDA_SUCCESS)
        swap_answer(symbol, pfn, cudaVersion, flags);
    return result;
}
