/* The result of cuInit: whether it succeeded, and which devices this process sees. */
#ifndef SIMGPU_INIT_H
#define SIMGPU_INIT_H

#include <stdatomic.h>

#include "driver/abi/api.h"
#include "shared/file/layout.h"

extern _Atomic bool sg_ready;     /* cuInit has succeeded */
extern uint32_t sg_visible_count; /* after CUDA_VISIBLE_DEVICES */
extern uint32_t sg_visible[SG_DEVICES];
extern bool sg_stretches; /* calls take time: stretched for race drills, or with a cost */

#define NEED_INIT()                                                                                                    \
    do {                                                                                                               \
        if (UNLIKELY(!atomic_load_explicit(&sg_ready, memory_order_relaxed)))                                          \
            return sg_not_ready();                                                                                     \
    } while (0)
CUresult sg_not_ready(void);
/* What a real driver answers with a crash: a loud message and abort, if SIMGPU_MISUSE=abort says so. */
void sg_misuse(const char *what);

#endif
