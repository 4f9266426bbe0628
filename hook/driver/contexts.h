/* Contexts: which context is current, which contexts still live, and on which GPU a stream or a context is. */
#ifndef NVSHARE_CONTEXTS_H
#define NVSHARE_CONTEXTS_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

/* True for the handles that name no created stream: NULL, the legacy stream, the default stream of the thread. */
static inline bool is_default_stream(CUstream stream) { return (uintptr_t)stream <= 2; }

/* The context of a stream, or the current context; NULL if there is none. */
CUcontext context_of(CUstream stream);
/* The context of a stream, and the place of its GPU in `gpus`; -1 for a GPU of another container, -2 without a context. */
int locate(CUstream stream, CUcontext *context);
/* The GPU of the current context; returns the same as locate. */
int locate_current(void);
int locate_device(CUdevice device);

/* Makes the context current until context_pop; true when it was not current already. */
bool context_push(CUcontext context);
void context_pop(bool was_pushed);
bool context_is_alive(CUcontext context);
/* The same for many questions at one moment.  The driver is asked once for each context, unless there are too many. */
struct asked_contexts {
    CUcontext contexts[16];
    bool are_alive[16];
    unsigned count;
};
bool context_is_alive_still(struct asked_contexts *asked, CUcontext context);
bool primary_is_active(CUdevice device);
void context_set_gone(CUcontext context); /* this thread treats it as ended from now on; NULL: none */

#endif
