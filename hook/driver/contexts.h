/* Contexts: which is current, which still lives, and which GPU a stream or a context is on. */
#ifndef NVSHARE_CONTEXTS_H
#define NVSHARE_CONTEXTS_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

/* One of the handles that name no stream of their own: NULL, the legacy stream, the thread's own. */
static inline bool is_default_stream(CUstream stream) { return (uintptr_t)stream <= 2; }

/* The context of a stream, or the current one; NULL without any. */
CUcontext context_of(CUstream stream);
/* The GPU's place in `gpus` and the context of a stream; -1 for a GPU that is not ours, -2 without any context. */
int locate(CUstream stream, CUcontext *context);
/* The GPU of the current context, as locate. */
int locate_current(void);
int locate_device(CUdevice device);

/* Makes the context current for the calls between; true when it had to. */
bool context_push(CUcontext context);
void context_pop(bool was_pushed);
bool context_is_alive(CUcontext context);
/* The same for many questions at one moment: each context is asked about once, as long as there are not too many. */
struct asked_contexts {
    CUcontext contexts[16];
    bool are_alive[16];
    unsigned count;
};
bool context_is_alive_still(struct asked_contexts *asked, CUcontext context);
bool primary_is_active(CUdevice device);
void context_set_gone(CUcontext context); /* from now on this thread takes it for one that has ended; NULL: none */

#endif
