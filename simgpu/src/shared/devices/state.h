/* The state of all devices, as one transaction works on it: the copy that is not active yet. */
#ifndef SIMGPU_STATE_H
#define SIMGPU_STATE_H

#include "shared/file/file.h"

struct sg_state {
    const struct sg_map *map;
    struct sg_core *core;
    struct sg_context *context;
    uint32_t which;
};

static inline bool sg_in_use(const struct sg_core *core, uint32_t context) {
    return core->used[context / 64] >> (context % 64) & 1;
}

/* The next used context after `context` (start with -1), or -1. */
int sg_next_used(const struct sg_core *core, int context);

#endif
