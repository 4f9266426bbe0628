/* What the daemon says of turns: one function a verb. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "driver/devices.h"
#include "flight/flight.h"
#include "process/clock.h"
#include "process/log.h"
#include "turns/turns_state.h"

static void hear_grant(const struct line *line) {
    const char *turn = line_get(line, "turn"), *list = line_get(line, "gpus");
    bool is_new = false;
    if (!turn || !list || strlen(turn) >= TURN_TEXT)
        return;
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        if (!strstr(list, devices_uuid(gpu) + 4))
            continue;
        is_new |= strcmp(state.places[gpu].turn, turn) != 0;
        begin_turn(gpu, turn, line);
    }
    state.totals.turns += is_new;
    state.totals.neighbours += is_new && line_number(line, "waiting", 0);
}

static void hear_wanted(const struct line *line) {
    const char *turn = line_get(line, "turn");
    bool is_first = false;
    for (int gpu = 0; turn && gpu < devices_count(); gpu++) {
        if (!is_of_turn(gpu, turn))
            continue;
        is_first |= !state.places[gpu].is_wanted;
        state.places[gpu].is_wanted = true;
        state.places[gpu].keep_ns = line_number(line, "keep_ms", KEEP_MS) * MS;
        state.places[gpu].idle_since = 0;
        flight_set_waited(gpu, true, UNKNOWN_NS);
    }
    state.totals.neighbours += is_first;
}

static void hear_yield(const struct line *line) {
    const char *turn = line_get(line, "turn");
    const char *dot = turn ? strchr(turn, '.') : NULL;
    for (int gpu = 0; dot && gpu < devices_count(); gpu++) {
        uint32_t word = atomic_load(word_of(gpu));
        if (state.places[gpu].phase == NO_TURN_HELD && word && word == (uint32_t)strtoull(dot + 1, NULL, 10))
            begin_unannounced(&state.places[gpu], word); /* given up before: a partner may need us to end it all the same */
    }
    if (turn)
        stop_turn(turn, "yield");
}

/* Over, whatever is in flight: its end is seen to all the same. Who stands at the gate asks at once: what is in flight may
 * wait for that very launch, and would never end. */
static void hear_revoked(const struct line *line) {
    const char *turn = line_get(line, "turn");
    if (turn)
        stop_turn(turn, "yield");
    for (int gpu = 0; turn && gpu < devices_count(); gpu++) {
        struct place *place = &state.places[gpu];
        if (!is_of_turn(gpu, turn))
            continue;
        place->is_revoked = true;
        if (place->waiters)
            ask_for(gpu);
    }
}

static void hear_reserved(const struct line *line) {
    const char *uuid = line_get(line, "gpu");
    int gpu = uuid ? devices_find(uuid) : -1;
    if (gpu >= 0)
        state.reserved[gpu] = line_number(line, "bytes", 0);
    state.reserve_answer = 1;
    pthread_cond_broadcast(&state.changed);
}

/* Too many connections are refused without a verb.  A hello that came too late is said again: that is no refusal. */
static bool is_refusal_of_hello(const struct line *line) {
    const char *verb = line_get(line, "verb"), *code = line_get(line, "code");
    return !state.is_current && (!verb || !strcmp(verb, "hello")) && !(code && !strcmp(code, "no-hello"));
}

static void hear_error(const struct line *line) {
    const char *code = line_get(line, "code"), *message = line_get(line, "message"), *verb = line_get(line, "verb");
    if (verb && !strcmp(verb, "reserve")) {
        state.reserve_answer = -1;
        pthread_cond_broadcast(&state.changed);
    }
    bool is_hopeless = verb && code && !strcmp(verb, "want") && !strcmp(code, "not-yours");
    (is_hopeless ? say : say_debug)("the scheduler refused %s: %s (%s)", verb ? verb : "a line", code ? code : "?", message ? message : "");
}

bool turns_hear(struct line *line, const int *descriptors, int count) {
    static const struct {
        const char *verb;
        void (*hear)(const struct line *line);
    } verbs[] = {{"grant", hear_grant},       {"wanted", hear_wanted}, {"yield", hear_yield}, {"revoked", hear_revoked},
                 {"reserved", hear_reserved}, {"error", hear_error}};
    if (!strcmp(line->verb, "welcome"))
        return hear_welcome(line, descriptors, count);
    if (!strcmp(line->verb, "error") && is_refusal_of_hello(line))
        return turns_hear_refusal(line, now_ns());
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(line->verb, verbs[i].verb))
            verbs[i].hear(line);
    return true;
}
