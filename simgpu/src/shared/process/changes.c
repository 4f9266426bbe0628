/* One futex in the shared file. A waiter also looks by itself every 10 ms: nobody tells of a process that died. */
#define _GNU_SOURCE
#include "changes.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define LOOK_NS 10000000ull /* a waiter looks at least this often: it also notices who died */

static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
    return syscall(SYS_futex, word, operation, value, timeout, NULL, FUTEX_BITSET_MATCH_ANY);
}

void sg_tell_change(void) {
    _Atomic uint32_t *changed = &sg_client.map.control->changed;
    atomic_fetch_add(changed, 1);
    syscall(SYS_futex, changed, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t sg_change_count(void) {
    return atomic_load(&sg_client.map.control->changed);
}

void sg_sleep(uint32_t seen, uint64_t simulated_ns) {
    double real = (double)simulated_ns / sg_client.map.header->physics.speed;
    uint64_t wait = real > (double)LOOK_NS ? LOOK_NS : (uint64_t)real + 1;
    uint64_t until = sg_monotonic_ns() + wait;
    struct timespec deadline = {.tv_sec = (time_t)(until / 1000000000ull), .tv_nsec = (long)(until % 1000000000ull)};
    /* the default slack of 50 us would be added to every kernel somebody waits for */
    int slack = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, 1000);
    futex(&sg_client.map.control->changed, FUTEX_WAIT_BITSET, seen, &deadline);
    prctl(PR_SET_TIMERSLACK, slack);
}
