/* The container's turns, as this process sees them: how one begins and ends.
 *
 * Everything here happens under one lock, by the listener's thread or by an application thread that found the gate
 * closed; the fast path never comes here.  One rule above all: `allowed` of a GPU names a turn only while nothing in this
 * state knows a reason to stop for that turn.  Its neighbours: turns_messages.c (what the daemon says), turns_connect.c
 * (welcome, hello, loss), turns_timers.c (what becomes due), turns_wait.c (the application's threads). */
#define _GNU_SOURCE
#include "turns/turns_state.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/listener.h"
#include "driver/devices.h"
#include "flight/flight.h"
#include "memory/pools.h"
#include "process/clock.h"
#include "process/lock_order.h"
#include "turns/drain_barrier.h"

struct turns_state state = {
    .changed = PTHREAD_COND_INITIALIZER, .announce_ns = NVSHARE_WIRE_ANNOUNCE_MS * MS};
const _Atomic uint32_t closed_word = 0;

/* With what the turn still held has used so far. */
struct turns_totals turns_totals(void) {
    bool is_locked = lock_take_at_exit(LOCK_TURNS);
    struct turns_totals totals = state.totals;
    if (is_locked)
        lock_release(LOCK_TURNS);
    for (int gpu = 0; gpu < devices_count(); gpu++)
        totals.busy_ns += flight_busy_at_the_end(gpu);
    return totals;
}

/* ------------------------------------------------------------------------------------------------ the gate */

const _Atomic uint32_t *word_of(int gpu) { return atomic_load(&gpus[gpu].word); }

void wake_sleepers(int gpu) {
    syscall(SYS_futex, word_of(gpu), FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void close_gate(int gpu) { atomic_store(&gpus[gpu].allowed, NO_TURN); }

void set_word(int gpu, const _Atomic uint32_t *word) {
    const _Atomic uint32_t *before = word_of(gpu);
    atomic_store(&gpus[gpu].word, word);
    syscall(SYS_futex, before, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* The word is open before the grant's line is read: the turn's name is known all the same. */
void begin_unannounced(struct place *place, uint32_t word) {
    char turn[TURN_TEXT];
    snprintf(turn, sizeof turn, "%.16s.%u", state.epoch, word);
    state.totals.turns += strcmp(place->turn, turn) != 0;
    memcpy(place->turn, turn, sizeof turn);
    barrier_show((int)(place - state.places), word, NOT_DRAINING);
    place->phase = HELD;
    place->counter = word;
    place->stopped = 0;
    place->is_wanted = place->is_beside = false;
    place->idle_since = place->quantum_ns = 0;
    flight_set_waited((int)(place - state.places), true, UNKNOWN_NS); /* until the grant says otherwise */
}

/* Opens for the turn that the word names, unless this process has stopped for it. */
bool try_to_open(int gpu) {
    struct place *place = &state.places[gpu];
    uint32_t word = atomic_load(word_of(gpu));
    if (state.is_unscheduled) {
        atomic_store(&gpus[gpu].allowed, word);
        return true;
    }
    if (!word || place->phase == STOPPING || word == place->stopped)
        return false;
    if (place->phase == NO_TURN_HELD)
        begin_unannounced(place, word);
    atomic_store(&gpus[gpu].allowed, word);
    return true;
}

/* ------------------------------------------------------------------------------------------------ sending */

void send_line(const char *format, const char *first, const char *second) {
    char line[NVSHARE_LINE_LONGEST];
    int length = snprintf(line, sizeof line, format, first, second);
    if (length > 0 && (size_t)length < sizeof line)
        listener_send(line, (size_t)length);
}

void ask_for(int gpu) {
    struct place *place = &state.places[gpu];
    if (place->has_asked || (place->phase == STOPPING && !place->is_revoked) || !state.is_current)
        return;
    place->has_asked = true;
    send_line("want gpus=%s\n", devices_uuid(gpu), "");
}

void tell_use(int gpu) {
    struct place *place = &state.places[gpu];
    if (memory_kept(gpu) && !listener_is_ending())
        pools_look(gpu);
    struct memory_use use = memory_own_use(gpu);
    if (!state.is_current || !memcmp(&use, &place->told, sizeof use))
        return;
    char line[256];
    int length = snprintf(line, sizeof line, "using gpu=%s pageable=%llu unpageable=%llu\n", devices_uuid(gpu),
                          (unsigned long long)use.pageable, (unsigned long long)use.unpageable);
    if (use.pageable + use.unpageable < place->told.pageable + place->told.unpageable) {
        state.reserved[gpu] = 0; /* the daemon forgets what it reserved */
        memory_expect_less(gpu);
    }
    place->told = use;
    listener_send(line, (size_t)length);
}

/* ------------------------------------------------------------------------------------------------ turns begin and end */

bool is_of_turn(int gpu, const char *turn) {
    return state.places[gpu].phase != NO_TURN_HELD && !strcmp(state.places[gpu].turn, turn);
}

/* Shuts the gate of every GPU of a turn; what is in flight goes on, turns_tick sees it end. */
void stop_turn(const char *turn, const char *reason) {
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        struct place *place = &state.places[gpu];
        if (!is_of_turn(gpu, turn) || place->phase == STOPPING)
            continue;
        close_gate(gpu);
        place->phase = STOPPING;
        place->is_revoked = false;
        place->stopped = place->counter;
        place->is_flushed = false;
        place->passes = 0;
        place->reason = reason;
        place->drain_since = now_ns();
        barrier_show(gpu, place->counter, FLYING); /* until looked at: the others wait for that */
    }
}

/* Everything of the turn has ended: say so, and ask again for those who wait. */
void finish_turn(const char *turn, const char *reason) {
    char line[160], name[TURN_TEXT];
    uint64_t busy = 0;
    snprintf(name, sizeof name, "%s", turn);
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        struct place *place = &state.places[gpu];
        if (!is_of_turn(gpu, name))
            continue;
        busy += flight_take_busy(gpu);
        place->phase = NO_TURN_HELD;
        if (place->next_word)
            set_word(gpu, place->next_word);
        place->next_word = NULL;
        tell_use(gpu);
        tell_time(gpu);
    }
    state.totals.busy_ns += busy;
    int length = snprintf(line, sizeof line, "done turn=%s reason=%s busy_us=%llu\n", name, reason,
                          (unsigned long long)(busy / 1000));
    if (state.is_current)
        listener_send(line, (size_t)length);
    for (int gpu = 0; gpu < devices_count(); gpu++)
        if (state.places[gpu].waiters)
            ask_for(gpu);
}

void begin_turn(int gpu, const char *turn, const struct line *line) {
    struct place *place = &state.places[gpu];
    const char *dot = strchr(turn, '.');
    bool is_same = !strcmp(place->turn, turn), was_wanted = place->is_wanted && is_same;
    if (!is_same || !place->quantum_ns)
        place->began_ns = now_ns();
    place->quantum_ns = line_number(line, "quantum_ms", 0) * MS;
    snprintf(place->turn, sizeof place->turn, "%s", turn);
    place->counter = dot ? (uint32_t)strtoull(dot + 1, NULL, 10) : 0;
    barrier_show(gpu, place->counter, NOT_DRAINING);
    place->phase = HELD;
    place->stopped = 0;
    place->passes = 0;
    place->has_asked = false;
    place->is_beside = line_number(line, "beside", 0) != 0;
    place->is_wanted = was_wanted || line_number(line, "waiting", 0) != 0;
    if (!was_wanted)
        place->keep_ns = line_number(line, "keep_ms", KEEP_MS) * MS;
    place->idle_since = 0;
    uint64_t quiet_ms = line_number(line, "quiet_ms", UNKNOWN_NS);
    flight_set_waited(gpu, place->is_wanted, quiet_ms == UNKNOWN_NS ? UNKNOWN_NS : quiet_ms * MS);
    if (place->next_word)
        set_word(gpu, place->next_word);
    place->next_word = NULL;
    try_to_open(gpu);
    wake_sleepers(gpu);
}

void turns_after_fork(void) {
    pthread_cond_init(&state.changed, NULL);
    state.is_welcomed = state.is_current = state.is_unscheduled = state.is_reserving = false;
    state.lost_ns = state.answer_by = 0;
    state.welcome_waiters = 0;
    turns_end_trouble();
    memset(state.places, 0, sizeof state.places);
    memset(&state.totals, 0, sizeof state.totals);
    memset(state.reserved, 0, sizeof state.reserved);
    for (int gpu = 0; gpu < MOST_GPUS; gpu++) {
        close_gate(gpu);
        atomic_store(&gpus[gpu].word, &closed_word);
    }
}
