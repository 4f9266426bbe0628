/* Attaching, the lock, transactions and waits.
 *
 * Rules: alive is who holds the open-file-description lock on his slot's byte (process ids mean nothing between
 * containers).  The lock word names slot and generation; a holder that is dead is robbed, which is safe because a
 * transaction changes only the inactive copy until its one last store.
 */
#define _GNU_SOURCE
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shared/devices/timeline.h"

#define LOCK_WAITED 0x80000000u
#define GENERATION_SHIFT 10
#define GENERATION_MASK 0x1FFFFFu
#define LOOK_NS 10000000ull  /* a waiter looks at least this often: it also notices who died */
#define ROB_AFTER_NS 1000000 /* how long a lock is waited for before its holder is checked */

struct sg_client sg_client;
static bool watches_forks;
static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t begin_lock = PTHREAD_MUTEX_INITIALIZER;

static long futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
    return syscall(SYS_futex, word, operation, value, timeout, NULL, FUTEX_BITSET_MATCH_ANY);
}

uint64_t sg_to_now(uint64_t monotonic_ns) {
    const struct sg_header *header = sg_client.map.header;
    uint64_t passed = monotonic_ns - header->created_monotonic_ns;
    double speed = header->physics.speed;
    if (speed > 1.0 || speed < 1.0)
        return (uint64_t)((double)passed * speed) + 1;
    return passed + 1;
}

uint64_t sg_now(void) {
    return sg_to_now(sg_monotonic_ns());
}

/* ---- slots */

static struct flock slot_byte(off_t base, uint32_t slot) {
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = base + slot, .l_len = 1};
}

static uint32_t make_owner(uint32_t slot, uint32_t generation) {
    return (generation & GENERATION_MASK) << GENERATION_SHIFT | (slot + 1);
}

bool sg_is_alive(const struct sg_map *map, uint32_t owner) {
    uint32_t slot = sg_owner_slot(owner);
    if (slot >= SG_SLOTS || make_owner(slot, atomic_load(&map->slots[slot].generation)) != owner)
        return false;
    if (owner == sg_client.owner)
        return true;
    struct flock lock = slot_byte(SG_LIVE_BYTE, slot);
    return fcntl(map->descriptor, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* A process in a container does not know its id outside; the kernel does, and translates a lock's holder (Linux 4.14). */
uint32_t sg_pid_here(const struct sg_map *map, uint32_t owner) {
    uint32_t slot = sg_owner_slot(owner);
    struct flock lock = slot_byte(SG_PID_BYTE, slot);
    if (fcntl(map->descriptor, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return map->slots[slot].pid; /* it has closed the file once more, by itself: that gave the lock up */
    return lock.l_pid > 0 ? (uint32_t)lock.l_pid : 0;
}

static bool take_slot(struct sg_client *client) {
    for (uint32_t slot = 0; slot < SG_SLOTS; slot++) {
        struct flock lock = slot_byte(SG_LIVE_BYTE, slot), pid = slot_byte(SG_PID_BYTE, slot);
        if (fcntl(client->map.descriptor, F_OFD_SETLK, &lock) != 0)
            continue;
        struct sg_slot *mine = &client->map.slots[slot];
        uint32_t generation = atomic_fetch_add(&mine->generation, 1) + 1;
        mine->pid = (uint32_t)getpid();
        fcntl(client->map.descriptor, F_SETLK, &pid); /* sg_pid_here does without, too */
        memcpy(mine->label, client->settings.label, sizeof mine->label);
        client->owner = make_owner(slot, generation);
        return true;
    }
    return false;
}

/* The child of a fork is not this process: it must neither hold our slot alive nor use our state. */
static void leave_after_fork(void) {
    sg_client.forked = true;
    if (sg_client.map.descriptor >= 0)
        close(sg_client.map.descriptor);
    sg_client.map.descriptor = -1;
}

void sg_forget_parent(void) {
    sg_close_file(&sg_client.map);
    sg_client = (struct sg_client){.map.descriptor = -1};
    attach_lock = begin_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* their holders stayed behind */
}

static bool attach_once(struct sg_client *client) {
    char problem[256];
    if (!sg_read_settings(&client->settings, problem) || !sg_open_file(&client->map, &client->settings, problem)) {
        fprintf(stderr, "simgpu: %s\n", problem);
        return false;
    }
    if (!take_slot(client)) {
        fprintf(stderr, "simgpu: %d processes use %s already; end some of them\n", SG_SLOTS, client->settings.file);
        sg_close_file(&client->map);
        return false;
    }
    if (!watches_forks)
        pthread_atfork(NULL, NULL, leave_after_fork);
    watches_forks = true; /* a child inherits the handler */
    return client->attached = true;
}

bool sg_attach(void) {
    pthread_mutex_lock(&attach_lock);
    bool attached = !sg_client.forked && (sg_client.attached || attach_once(&sg_client));
    pthread_mutex_unlock(&attach_lock);
    return attached;
}

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
        if (atomic_compare_exchange_strong(&control->lock, &seen, sg_client.owner | mark))
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
    pthread_mutex_lock(&begin_lock);
    return begin();
}

bool sg_begin_at_exit(struct sg_state *state) {
    if (pthread_mutex_trylock(&begin_lock) != 0)
        return false;
    *state = begin();
    return true;
}

void sg_commit(struct sg_state *state) {
    atomic_store(&state->map->control->active, state->which);
    unlock_file();
    pthread_mutex_unlock(&begin_lock);
}

/* ---- waits */

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
