/* Welcome, hello, loss: what changes when a daemon comes or goes. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/listener.h"
#include "driver/devices.h"
#include "flight/flight.h"
#include "process/clock.h"
#include "process/environment.h"
#include "process/log.h"
#include "turns/turns_state.h"

static const _Atomic uint32_t unscheduled_word = 1;

/* A page of the gate, mapped for good: a thread may still be reading the old one. */
static const char *map_gate(int descriptor) {
    void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, descriptor, 0);
    bool is_gate = page != MAP_FAILED && !memcmp(page, NVSHARE_SHARED_MEMORY_GATE_MAGIC, 8);
    return is_gate ? page : NULL;
}

static void *map_ledger(int descriptor, const char *list) {
    int columns[MOST_GPUS];
    size_t line = NVSHARE_SHARED_MEMORY_LINE;
    size_t size = line + NVSHARE_SHARED_MEMORY_LEDGER_SLOTS * line * (1 + (size_t)devices_columns(list, columns));
    void *ledger = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    bool is_ledger = ledger != MAP_FAILED && !memcmp(ledger, NVSHARE_SHARED_MEMORY_LEDGER_MAGIC, 8);
    return is_ledger ? ledger : NULL;
}

/* A GPU held from before keeps its old word until the new daemon has answered for it. */
static void adopt_words(const char *page, const char *list) {
    for (size_t i = 0; *list && i < MOST_GPUS; i++) {
        size_t length = strcspn(list, ",");
        char uuid[UUID_TEXT] = "";
        memcpy(uuid, list, length < sizeof uuid - 1 ? length : sizeof uuid - 1);
        list += length + (list[length] == ',');
        int gpu = devices_find(uuid);
        if (gpu < 0)
            continue;
        const void *word = page + NVSHARE_SHARED_MEMORY_LINE * (1 + i);
        struct place *place = &state.places[gpu];
        if (place->phase == HELD && !state.is_unscheduled) {
            place->next_word = word;
            continue;
        }
        close_gate(gpu);
        set_word(gpu, word);
        place->next_word = NULL;
        place->stopped = 0;
    }
}

bool hear_welcome(const struct line *line, const int *descriptors, int count) {
    const char *list = line_get(line, "gpus"), *loss = line_get(line, "on_loss"), *mode = line_get(line, "mode");
    const char *fds = line_get(line, "fds"), *epoch = line_get(line, "epoch"), *kind = line_get(line, "allocation");
    bool has_ledger = count > 1 && (!fds || strstr(fds, "ledger"));
    const char *page = count > 0 ? map_gate(descriptors[0]) : NULL;
    if (!list || !page) {
        say("the scheduler's welcome brings no gate: it is of another version, or not ours");
        return false;
    }
    int gpu_count = devices_adopt(list);
    flight_set_bound((unsigned)line_number(line, "flight_ms", NVSHARE_WIRE_FLIGHT_MS),
                     (unsigned)line_number(line, "alone_flight_ms", NVSHARE_WIRE_ALONE_FLIGHT_MS), (unsigned)gpu_count);
    adopt_words(page, list);
    memory_adopt(has_ledger ? map_ledger(descriptors[1], list) : NULL, list, (unsigned)line_number(line, "slot", 0),
                 line_number(line, "memory", UINT64_MAX), kind && !strcmp(kind, "plain"));
    snprintf(state.epoch, sizeof state.epoch, "%s", epoch ? epoch : "");
    snprintf(state.mode, sizeof state.mode, "%s", mode ? mode : "");
    if (loss)
        state.runs_on_loss = !strcmp(loss, "run");
    state.announce_ns = line_number(line, "announce_ms", NVSHARE_WIRE_ANNOUNCE_MS) * MS;
    state.is_welcomed = state.is_current = true;
    state.is_unscheduled = false;
    turns_end_trouble();
    memset(state.reserved, 0, sizeof state.reserved);
    for (int gpu = 0; gpu < gpu_count; gpu++)
        if (state.places[gpu].waiters && state.places[gpu].phase == NO_TURN_HELD)
            ask_for(gpu);
    for (int gpu = 0; gpu < gpu_count; gpu++) {
        tell_use(gpu); /* to a new daemon it is news */
        state.places[gpu].time_before_ns = flight_look(gpu).busy_ns;
    }
    pthread_cond_broadcast(&state.changed);
    return true;
}

/* ------------------------------------------------------------------------------------------------ hello, loss */

static size_t add_held(char *into, size_t at, size_t size, bool is_beside) {
    const char *before = is_beside ? " beside=" : " holding=";
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        struct place *place = &state.places[gpu];
        if (place->phase == NO_TURN_HELD || place->is_beside != is_beside || state.is_unscheduled)
            continue;
        if (at >= size)
            return at; /* no hello is said that does not fit */
        at += (size_t)snprintf(into + at, size - at, "%s%s@%s", before, place->turn, devices_uuid(gpu));
        before = ",";
    }
    return at;
}

static size_t add_environment(char *into, size_t at, size_t size) {
    const char *mode = getenv(NVSHARE_NAMES_ENV_MODE), *loss = environment_on_loss();
    if (mode && *mode)
        at = line_add(into, at, size, "mode", mode);
    if (loss)
        at = line_add(into, at, size, "on_loss", loss);
    return at;
}

size_t turns_hello(char *into, size_t size) {
    const struct visible *visible = turns_may_say_hello(now_ns()) ? devices_list_visible(!listener_is_ending()) : NULL;
    if (!visible)
        return 0;
    size_t at = (size_t)snprintf(into, size, "hello v=%d pid=%d gpus=%s", NVSHARE_WIRE_VERSION, (int)getpid(), visible->uuids);
    at = add_held(into, at, size, false);
    at = add_held(into, at, size, true);
    at = add_environment(into, at, size);
    if (at + strlen(" card_bytes=") + strlen(visible->bytes) + 2 <= size) /* the daemon can do without */
        at += (size_t)snprintf(into + at, size - at, " card_bytes=%s", visible->bytes);
    if (at + 2 > size)
        return 0;
    into[at++] = '\n';
    return at;
}

void turns_connected(bool is_connected, uint64_t now) {
    bool was_current = state.is_current;
    state.is_current = false;
    if (is_connected)
        return;
    if (was_current || !state.lost_ns)
        state.lost_ns = now;
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        state.places[gpu].has_asked = false;
        state.places[gpu].told = (struct memory_use){0};
    }
    if (state.is_reserving)
        state.reserve_answer = 1; /* nobody to ask: the cap of the ledger still holds */
    pthread_cond_broadcast(&state.changed);
}

/* Nobody answered for the whole window. */
void give_up_on_daemon(void) {
    if (state.runs_on_loss && !state.is_unscheduled) {
        say("no scheduler: going on without turns (NVSHARE_ON_LOSS=run)");
        state.is_unscheduled = true;
        for (int gpu = 0; gpu < MOST_GPUS; gpu++) {
            state.places[gpu].phase = NO_TURN_HELD;
            set_word(gpu, &unscheduled_word);
            atomic_store(&gpus[gpu].allowed, 1);
        }
        pthread_cond_broadcast(&state.changed);
    }
    for (int gpu = 0; gpu < devices_count() && !state.runs_on_loss; gpu++)
        if (state.places[gpu].phase == HELD)
            stop_turn(state.places[gpu].turn, "yield");
}
