/* What the application's threads wait for: the first welcome, their turn, room to grow. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/listener.h"
#include "driver/devices.h"
#include "gate/thread_slots.h"
#include "process/cancel.h"
#include "process/clock.h"
#include "process/environment.h"
#include "process/lock_order.h"
#include "process/log.h"
#include "turns/turns_state.h"

#define PATIENCE_OF_QUESTIONS_NS (2000 * MS)
#define TRIES_A_MINUTE (60 * 1000 / NVSHARE_WIRE_RETRY_MS)
#define FLUSH_TRIES 1000 /* 100 ms */
#define BACKSTOP_NS (50 * MS) /* a sleeper looks again even if no wake reached it: the page may have been replaced */

static const struct daemon_handler handler = {
    .hello = turns_hello, .connected = turns_connected, .hear = turns_hear, .tick = turns_tick};

static bool is_ready(void) { return state.is_welcomed || state.is_unscheduled; }

static void prepare(void) {
    log_check_level();
    devices_look_up();
    lock_take(LOCK_TURNS);
    for (int gpu = 0; gpu < MOST_GPUS; gpu++)
        if (!word_of(gpu))
            atomic_store(&gpus[gpu].word, &closed_word), close_gate(gpu);
    const char *loss = environment_on_loss();
    if (!state.is_welcomed)
        state.runs_on_loss = loss && !strcmp(loss, "run");
    lock_release(LOCK_TURNS);
    for (unsigned tries = 0; !listener_start(&handler); tries++) {
        if (tries % TRIES_A_MINUTE == TRIES_A_MINUTE / 6)
            say("no thread can be started to speak to the scheduler, and this process waits until it can. See its limit of"
                " processes (pids.max, RLIMIT_NPROC)");
        usleep(NVSHARE_WIRE_RETRY_MS * 1000);
    }
}

static bool wait_for_welcome(void) {
    NOT_CANCELLED;
    prepare();
    lock_take(LOCK_TURNS);
    state.welcome_waiters++;
    while (!is_ready() && !turns_are_refused())
        lock_wait(LOCK_TURNS, &state.changed);
    state.welcome_waiters--;
    lock_release(LOCK_TURNS);
    return is_ready();
}

/* Where the driver refuses even to say which context is current (not initialised, or in a forked child), no hello can be
 * said: the call goes on, to be refused. */
bool turns_ready(void) {
    CUcontext ignored;
    if (LIKELY(is_ready()))
        return true;
    bool is_usable = DRIVER_HAS(cuCtxGetCurrent) && driver.cuCtxGetCurrent(&ignored) == CUDA_SUCCESS;
    return is_usable && wait_for_welcome();
}

bool turns_ready_soon(void) {
    if (LIKELY(is_ready()))
        return true;
    NOT_CANCELLED;
    prepare();
    uint64_t never = 0;
    atomic_compare_exchange_strong(&state.answer_by, &never, now_ns() + PATIENCE_OF_QUESTIONS_NS);
    while (!is_ready() && !turns_are_refused() && now_ns() < state.answer_by)
        usleep(1000);
    return is_ready();
}

static void sleep_on(const _Atomic uint32_t *word, uint32_t seen) {
    struct timespec limit = {0, (long)BACKSTOP_NS};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, NULL, 0);
}

/* The slot is taken under the lock: the listener cannot look in between and find nothing in flight. */
static bool take_pass(int gpu, struct slot *slot) {
    if (!state.places[gpu].passes)
        return false;
    slot_set_in(slot, gpu);
    state.places[gpu].passes--;
    return true;
}

bool turns_wait(int gpu, struct slot *slot) {
    if (LIKELY(gate_is_open(gpu)))
        return true;
    NOT_CANCELLED;
    uint64_t began = now_ns();
    bool has_passed = false;
    lock_take(LOCK_TURNS);
    end_pause(gpu, began);
    state.places[gpu].waiters++;
    while (!try_to_open(gpu) && !(has_passed = take_pass(gpu, slot))) {
        const _Atomic uint32_t *word = word_of(gpu);
        uint32_t seen = atomic_load(word);
        ask_for(gpu);
        lock_release(LOCK_TURNS);
        sleep_on(word, seen);
        lock_take(LOCK_TURNS);
        if (UNLIKELY(listener_is_ending()))
            turns_tick(now_ns()); /* the listener asks the driver nothing any more, and this call does anyway */
    }
    state.places[gpu].waiters--;
    state.places[gpu].idle_since = 0; /* it is about to launch */
    state.totals.waited_ns += now_ns() - began;
    lock_release(LOCK_TURNS);
    return !has_passed;
}

static bool flush(int gpu) {
    lock_take(LOCK_TURNS);
    bool is_flushed = flush_all(gpu, 0);
    lock_release(LOCK_TURNS);
    return is_flushed;
}

/* Another thread may be in a call of the driver that waits, a copy to the host, say: no lock is held while it ends. */
void turns_flush(void) {
    NOT_CANCELLED;
    for (int gpu = 0; gpu < devices_count(); gpu++)
        for (int i = 0; i < FLUSH_TRIES && !flush(gpu); i++)
            usleep(100);
}

bool turns_reserve(int gpu, uint64_t bytes) {
    NOT_CANCELLED;
    char text[32];
    bool is_granted = true;
    lock_take(LOCK_TURNS);
    while (state.is_reserving)
        lock_wait(LOCK_TURNS, &state.changed);
    if (state.is_current && bytes > state.reserved[gpu]) {
        state.is_reserving = true;
        state.reserve_answer = 0;
        snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
        send_line("reserve gpu=%s bytes=%s\n", devices_uuid(gpu), text);
        while (!state.reserve_answer)
            lock_wait(LOCK_TURNS, &state.changed);
        is_granted = state.reserve_answer > 0;
        state.is_reserving = false;
        pthread_cond_broadcast(&state.changed);
    }
    lock_release(LOCK_TURNS);
    return is_granted;
}

void turns_tell_use(int gpu) {
    NOT_CANCELLED;
    lock_take(LOCK_TURNS);
    tell_use(gpu);
    lock_release(LOCK_TURNS);
}
