/* Goes through the contexts that are in use. */
#include "state.h"

int sg_next_used(const struct sg_core *core, int context) {
    uint32_t from = (uint32_t)(context + 1);
    while (from < SG_CONTEXTS) {
        uint64_t rest = core->used[from / 64] >> (from % 64);
        if (rest)
            return (int)from + __builtin_ctzll(rest);
        from = (from / 64 + 1) * 64;
    }
    return -1;
}
