/* Calls that take time: spinning, because a driver computes and takes locks meanwhile, it does not sleep. */
#include "stretch.h"

#include "driver/base/thread.h"

static uint64_t random_below(uint64_t limit) {
    uint64_t x = sg_thread.random ? sg_thread.random : sg_now() ^ (uint64_t)(uintptr_t)&sg_thread;
    x |= x == 0;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    sg_thread.random = x;
    return x % limit;
}

static void spin(uint64_t length_ns) {
    uint64_t until = sg_monotonic_ns() + length_ns;
    while (sg_monotonic_ns() < until)
        __builtin_ia32_pause();
}

void sg_stretch(uint64_t limit_ns) {
    if (LIKELY(!sg_stretches) || limit_ns == 0)
        return;
    spin(random_below(limit_ns));
}

void sg_spend(uint64_t cost_ns) {
    if (UNLIKELY(sg_stretches) && cost_ns)
        spin(cost_ns);
}
