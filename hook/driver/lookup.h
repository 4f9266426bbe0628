/* Finding functions: the dlsym of the C library, and the functions of the driver. */
#ifndef NVSHARE_LOOKUP_H
#define NVSHARE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define INLINE static inline __attribute__((always_inline))

typedef void *dlsym_function(void *handle, const char *name);
typedef void *dlvsym_function(void *handle, const char *name, const char *version);
typedef void *dlopen_function(const char *file, int flags);

/* The function of the C library with that name.  It is found in the symbol table: dlsym cannot be used to find dlsym. */
void *libc_function(const char *name);
void lookup_after_fork(void);
/* By its name it starts work or allocates, and functions.table does not have it. */
bool lookup_is_risky(const char *name);
void lookup_tell_unknown(const char *name); /* says so once */

/* Loads the driver once, if it is there; true when the function at this place of struct driver is known. */
bool driver_has(size_t place);
#define DRIVER_HAS(name)                                                                                                \
    (LIKELY(__atomic_load_n(&driver.name, __ATOMIC_ACQUIRE) != NULL) || driver_has(offsetof(struct driver, name)))

#endif
