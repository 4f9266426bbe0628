/* The file's lock and the transactions under it.
 *
 * The lock word names slot and generation; a holder that is dead is robbed, which is safe because a transaction changes
 * only the inactive copy until its one last store.
 */
#define _GNU_SOURCE
#include "transaction.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "shared/devices/timeline.h"
#include "shared/file/slots.h"

#define LOCK_WAITED 0x80000000u
#define ROB_AFTER_NS 1000000 /* how long a lock is waited for before its holder is checked */

/* ---- the lock */

static void rob_if_dead(struct sg_control *control, uint32_t seen) {
    uint32_t owner = seen & ~LOCK_WAITED;
    if (owner && !sg_is_alive(&sg_client.map, owner))
        atomic_compare_exchange_strong(&control->lock, &seen, 0);
}

static void wait_for_lock(struct sg_control *control, uint32_t seen) {
    if (!(seen & LOCK_WAITED) && !atomic_compare_exchange_strong(&control->lock, &seen, seen | LOCK_WAITED))
        return;
    uint32_t waited = seen | LOCK_WAITED;
    struct timespec timeout = {.tv_nsec = ROB_AFTER_NS};
    if (syscall(SYS_futex, &control->lock, FUTEX_WAIT, waited, &timeout, NULL, 0) != 0 && errno == ETIMEDOUT)
        rob_if_dead(control, waited);
}

static void lock_file(void) {
    struct sg_control *control = sg_client.map.control;
    uint32_t mark = 0;
    for (unsigned tries = 0;; tries++) {
        uint32_t seen = 0;
        if (atomic_compare_exchange_strong(&control->lock, &seen, sg_client.map.owner | mark))
            return;
        if (tries < 64) {
            __builtin_ia32_pause();
            continue;
        }
        wait_for_lock(control, seen);
        mark = LOCK_WAITED; /* others may sleep too: whoever had to wait wakes the next */
    }
}

static void unlock_file(void) {
    struct sg_control *control = sg_client.map.control;
    if (atomic_exchange(&control->lock, 0) & LOCK_WAITED)
        syscall(SYS_futex, &control->lock, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* ---- transactions */

static void copy_contexts(struct sg_context *to, const struct sg_context *from, const struct sg_core *core) {
    for (uint32_t word = 0; word < SG_CONTEXTS / 64; word++) {
        for (uint64_t used = core->used[word]; used; used &= used - 1) {
            uint32_t i = word * 64 + (uint32_t)__builtin_ctzll(used);
            size_t bytes = offsetof(struct sg_context, channel) + from[i].channels * sizeof from[i].channel[0];
            memcpy(&to[i], &from[i], bytes);
        }
    }
}

static struct sg_state begin(void) {
    lock_file();
    const struct sg_map *map = &sg_client.map;
    uint32_t active = atomic_load(&map->control->active) & 1u;
    struct sg_state state = {
        .map = map,
        .which = 1 - active,
        .core = sg_core_at(map, 1 - active),
        .context = sg_contexts_at(map, 1 - active),
    };
    memcpy(state.core, sg_core_at(map, active), sizeof *state.core);
    copy_contexts(state.context, sg_contexts_at(map, active), state.core);
    sg_advance(&state, sg_now());
    return state;
}

struct sg_state sg_begin(void) {
    sg_lock(&sg_client.transaction);
    return begin();
}

bool sg_begin_at_exit(struct sg_state *state) {
    if (!sg_try_lock(&sg_client.transaction))
        return false;
    *state = begin();
    return true;
}

void sg_commit(struct sg_state *state) {
    atomic_store(&state->map->control->active, state->which);
    unlock_file();
    sg_unlock(&sg_client.transaction);
}
