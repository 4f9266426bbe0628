/* The look-up table of driver functions.  It is generated from functions.table and sorted by symbol. */
#ifndef NVSHARE_ENTRIES_H
#define NVSHARE_ENTRIES_H

#include <stddef.h>

struct entry {
    const char *symbol;   /* as the library exports it: cuMemAlloc_v2 */
    const char *base;     /* as cuGetProcAddress is asked for it: cuMemAlloc */
    int since;            /* the first version that gets this form */
    int is_per_thread;    /* the default stream is the thread's own */
    void *wrapper;        /* NULL: called by us, not wrapped */
    size_t real;          /* offset in struct driver */
};

extern const struct entry entries[];
extern const unsigned entry_count;

/* Patterns of names, ended by NULL: rightly left alone, and what is dangerous if it is not known. */
extern const char *const exempt_patterns[], *const risk_patterns[];

#endif
