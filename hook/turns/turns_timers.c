/* What becomes due: a turn that has drained, a GPU that has fallen idle, a window that has passed. */
#define _GNU_SOURCE
#include <string.h>

#include "driver/devices.h"
#include "flight/flight.h"
#include "gate/thread_slots.h"
#include "memory/ledger.h"
#include "process/clock.h"
#include "turns/drain_barrier.h"
#include "turns/turns_state.h"

#define IDLE_TICK_NS (MS)
#define DRAIN_TICK_NS (MS / 10)
#define LEAST_KEEP_NS (KEEP_MS * MS)
#define MOST_PAUSE_NS (30 * 1000 * MS)
#define PASS_EVERY_NS (2 * MS)
#define PATIENCE_WITH_OTHERS_NS (50 * MS) /* with a process that was stopped, say */
#define HELD_UP_NS (20 * MS)
#define LOOK_NS (100 * MS)
#define MOST_LOOK_NS (1000 * MS)

/* A thread is in a call of the driver that does not end, a copy to the host, say: it may wait there for what is in flight, and
 * that for a partner. Nothing of it can be marked meanwhile. */
static bool is_held_up(const struct place *place, uint64_t now) {
    uint64_t since = place->last_pass > place->drain_since ? place->last_pass : place->drain_since;
    return !place->is_flushed && !place->passes && now > since + HELD_UP_NS;
}

static bool is_stuck(int gpu, uint64_t now) {
    const struct place *place = &state.places[gpu];
    return place->is_flushed ? flight_is_stuck(gpu) : is_held_up(place, now);
}

/* What this process has of the turn: nothing more in flight, something, or something that waits for a partner. */
static enum drain own_drain(const char *turn, uint64_t now) {
    enum drain drain = EMPTY;
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        struct place *place = &state.places[gpu];
        if (!is_of_turn(gpu, turn))
            continue;
        if (!place->is_flushed && (is_held_up(place, now) ? slots_clear(gpu) : slots_clear_soon(gpu))) {
            flight_flush(gpu);
            place->is_flushed = true;
        }
        bool is_empty = place->is_flushed && !place->passes && flight_is_empty(gpu);
        if (!is_empty && drain != STUCK)
            drain = is_stuck(gpu, now) ? STUCK : FLYING;
    }
    return drain;
}

static bool another_is_stuck(const char *turn, int gpu, uint64_t now) {
    for (int other = 0; other < devices_count(); other++)
        if (other != gpu && is_of_turn(other, turn) && is_stuck(other, now))
            return true;
    return false;
}

/* Wherever a thread stands at the gate of the turn, nothing moves, and somebody else is stuck: one launch is let through. */
static void let_partners_through(const char *turn, bool is_any_stuck, uint64_t now) {
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        struct place *place = &state.places[gpu];
        bool is_asked = is_of_turn(gpu, turn) && place->waiters && !place->passes && now >= place->last_pass + PASS_EVERY_NS;
        bool is_moving = is_asked && !(place->is_flushed && flight_is_empty(gpu)) && !is_stuck(gpu, now);
        if (!is_asked || is_moving || !(is_any_stuck || another_is_stuck(turn, gpu, now)))
            continue;
        place->passes = 1;
        place->last_pass = now;
        place->is_flushed = false;
        wake_sleepers(gpu);
    }
}

/* Nothing of the turn is in flight here, nor in the container's other processes. */
static bool turn_has_drained(int gpu, uint64_t now) {
    struct place *place = &state.places[gpu];
    enum drain drain = own_drain(place->turn, now);
    barrier_show(gpu, place->counter, drain);
    struct others others = barrier_look(gpu, place->counter);
    let_partners_through(place->turn, others.is_any_stuck, now);
    bool is_late = now - place->drain_since > PATIENCE_WITH_OTHERS_NS;
    if (!strcmp(place->reason, "idle"))
        return drain == EMPTY; /* the others go on in this turn */
    return drain == EMPTY && !others.is_any_flying && (!others.is_any_unaware || is_late);
}

/* An event behind everything launched on the GPU: the gate is shut for the moment of it. */
bool flush_all(int gpu, unsigned patience_ms) {
    uint64_t before = atomic_exchange(&gpus[gpu].allowed, NO_TURN);
    bool is_clear = slots_clear_within(gpu, patience_ms);
    if (is_clear)
        flight_flush(gpu);
    atomic_store(&gpus[gpu].allowed, before);
    return is_clear;
}

/* How long pauses are, of those long enough to be one; the last ones count most. */
void end_pause(int gpu, uint64_t now) {
    struct place *place = &state.places[gpu];
    uint64_t length = place->pause_since ? now - place->pause_since : 0;
    place->pause_since = 0;
    if (length < LEAST_KEEP_NS)
        return;
    length = length < MOST_PAUSE_NS ? length : MOST_PAUSE_NS;
    place->pause_ns = place->pause_ns ? (place->pause_ns + length) / 2 : length;
}

/* How long to stay idle before the GPU is given up.  As long as it would cost to come back, as far as nothing better is
 * known; at once where pauses have been longer than that, and late in the turn, when the switch is due anyway. */
static uint64_t keep_for(const struct place *place, uint64_t now) {
    bool is_late = place->quantum_ns && now - place->began_ns >= place->quantum_ns / 5 * 4;
    bool is_worth_it = place->pause_ns > place->keep_ns;
    uint64_t least = place->keep_ns / 16 > LEAST_KEEP_NS ? place->keep_ns / 16 : LEAST_KEEP_NS;
    return (is_late || is_worth_it) && place->keep_ns > least ? least : place->keep_ns;
}

/* Nothing launched, waited for or in flight since `idle_since`; the gate is shut for the moment of looking.  A thread that
 * waits has been granted this turn, and only wants the processor. */
static bool has_been_idle(int gpu, uint64_t now) {
    struct place *place = &state.places[gpu];
    uint64_t activity = flight_activity(gpu);
    if (activity != place->activity || place->waiters || !slots_clear(gpu)) {
        place->activity = activity;
        place->idle_since = 0;
        end_pause(gpu, now);
        return false;
    }
    if (!place->idle_since) {
        bool is_flushed = flush_all(gpu, 0);
        place->activity = flight_activity(gpu);
        if (!is_flushed || !flight_is_empty(gpu))
            return false;
        place->idle_since = place->pause_since = now;
    }
    return now - place->idle_since >= keep_for(place, now);
}

static bool turn_is_idle(const char *turn, uint64_t now) {
    bool is_idle = true;
    for (int gpu = 0; gpu < devices_count(); gpu++)
        if (is_of_turn(gpu, turn) && !has_been_idle(gpu, now))
            is_idle = false;
    return is_idle;
}

/* Ten times a second while anything moves, else less and less often.  An event is recorded behind what was launched since, so
 * that its end is seen soon: the gate is shut for the moment of it. */
void tell_time(int gpu) {
    struct place *place = &state.places[gpu];
    struct flight_time time = flight_look(gpu);
    ledger_show_time(gpu, time.busy_ns - place->time_before_ns, time.longest_ns);
}

static uint64_t tick_time(int gpu, uint64_t now) {
    struct place *place = &state.places[gpu];
    if (now < place->next_look)
        return place->next_look - now;
    if (flight_has_unmarked(gpu))
        flush_all(gpu, 0);
    tell_time(gpu);
    uint64_t time = flight_look(gpu).busy_ns, pause = place->look_every_ns * 2;
    bool is_moving = time != place->told_time_ns;
    place->look_every_ns = is_moving || pause < LOOK_NS ? LOOK_NS : pause < MOST_LOOK_NS ? pause : MOST_LOOK_NS;
    place->told_time_ns = time;
    place->next_look = now + place->look_every_ns;
    return place->look_every_ns;
}

static uint64_t tick_stopping(int gpu, uint64_t now) {
    if (!turn_has_drained(gpu, now))
        return DRAIN_TICK_NS;
    finish_turn(state.places[gpu].turn, state.places[gpu].reason);
    return UINT64_MAX;
}

static uint64_t tick_held(struct place *place, uint64_t now) {
    if (place->next_word && now >= state.lost_ns + state.announce_ns) {
        stop_turn(place->turn, "yield"); /* a daemon is back, but has not said that we may go on */
        return 0;
    }
    if (!place->is_wanted || !state.is_current)
        return UINT64_MAX;
    if (!turn_is_idle(place->turn, now))
        return place->keep_ns / 4 < IDLE_TICK_NS && place->keep_ns ? place->keep_ns / 4 : IDLE_TICK_NS;
    stop_turn(place->turn, "idle");
    return 0;
}

uint64_t turns_tick(uint64_t now) {
    uint64_t next = UINT64_MAX;
    if (!state.is_current) {
        uint64_t end = (state.lost_ns ? state.lost_ns : (state.lost_ns = now)) + state.announce_ns;
        if (now >= end)
            give_up_on_daemon();
        else
            next = end - now;
        uint64_t reminder = turns_remind(now);
        next = reminder < next ? reminder : next;
    }
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        struct place *place = &state.places[gpu];
        uint64_t wish = UINT64_MAX;
        if (place->phase == HELD)
            wish = tick_held(place, now);
        if (place->phase == HELD && state.is_current) {
            uint64_t look = tick_time(gpu, now);
            wish = look < wish ? look : wish;
        }
        if (place->phase == STOPPING)
            wish = tick_stopping(gpu, now);
        next = wish < next ? wish : next;
    }
    return next;
}
