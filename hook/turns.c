/* The container's turns, as this process sees them.
 *
 * Everything here happens under one lock, by the listener's thread or by an application thread that found the gate
 * closed; the fast path never comes here.  One rule above all: `allowed` of a GPU names a turn only while nothing in this
 * file knows a reason to stop for that turn. */
#define _GNU_SOURCE
#include "turns.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "devices.h"
#include "flight.h"
#include "gate.h"
#include "listener.h"
#include "log.h"
#include "memory.h"
#include "slots.h"

#define MOST_GPUS NVSHARE_SHARED_MEMORY_MOST_GPUS
#define MS UINT64_C(1000000)
#define TURN_TEXT 32
#define IDLE_TICK_NS (MS)
#define DRAIN_TICK_NS (MS / 10)
#define KEEP_MS 5         /* where a grant says that somebody waits, but not how long to keep the GPU */
#define BACKSTOP_NS (50 * MS) /* a sleeper looks again even if no wake reached it: the page may have been replaced */

struct gpu gpus[MOST_GPUS];
static const _Atomic uint32_t closed_word = 0;
static const _Atomic uint32_t unscheduled_word = 1;

enum phase { NO_TURN_HELD, HELD, STOPPING };

/* What is known of each GPU besides the gate. */
struct place {
    enum phase phase;
    char turn[TURN_TEXT];  /* its name, epoch.counter */
    uint32_t counter;      /* the low 32 bits */
    uint32_t stopped;      /* this process has stopped for the turn of that counter; 0: for none */
    bool is_beside, is_flushed, is_wanted, has_asked;
    const char *reason;    /* of the done to come */
    uint64_t keep_ns, idle_since, activity;
    uint64_t busy_ns;
    const _Atomic uint32_t *next_word; /* of the new daemon's page, until it has answered for the turn held */
    int waiters;
    struct memory_use told;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_bool is_welcomed;  /* ever */
    bool is_current;   /* this connection was welcomed */
    atomic_bool is_unscheduled;
    bool runs_on_loss;
    char epoch[TURN_TEXT], mode[16];
    uint64_t lost_ns, announce_ns;
    uint64_t reserved[MOST_GPUS];
    int reserve_answer; /* 0: none yet, 1: granted, -1: refused */
    bool is_reserving;
    struct place places[MOST_GPUS];
    struct turns_totals totals;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .changed = PTHREAD_COND_INITIALIZER,
          .announce_ns = NVSHARE_WIRE_ANNOUNCE_MS * MS};

void turns_lock(void) { pthread_mutex_lock(&self.lock); }

void turns_unlock(void) { pthread_mutex_unlock(&self.lock); }

/* With what the turn still held has used so far. */
struct turns_totals turns_totals(void) {
    turns_lock();
    struct turns_totals totals = self.totals;
    turns_unlock();
    for (int gpu = 0; gpu < devices_count(); gpu++)
        totals.busy_ns += flight_take_busy(gpu);
    return totals;
}

/* ------------------------------------------------------------------------------------------------ the gate */

static const _Atomic uint32_t *word_of(int gpu) { return atomic_load(&gpus[gpu].word); }

static void wake_sleepers(int gpu) {
    syscall(SYS_futex, word_of(gpu), FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void close_gate(int gpu) { atomic_store(&gpus[gpu].allowed, NO_TURN); }

static void set_word(int gpu, const _Atomic uint32_t *word) {
    const _Atomic uint32_t *before = word_of(gpu);
    atomic_store(&gpus[gpu].word, word);
    syscall(SYS_futex, before, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* The word is open before the grant's line is read: the turn's name is known all the same. */
static void begin_unannounced(struct place *place, uint32_t word) {
    char turn[TURN_TEXT];
    snprintf(turn, sizeof turn, "%.16s.%u", self.epoch, word);
    self.totals.turns += strcmp(place->turn, turn) != 0;
    memcpy(place->turn, turn, sizeof turn);
    place->phase = HELD;
    place->counter = word;
    place->stopped = 0;
    place->is_wanted = place->is_beside = false;
    place->idle_since = 0;
}

/* Opens for the turn that the word names, unless this process has stopped for it. */
static bool try_to_open(int gpu) {
    struct place *place = &self.places[gpu];
    uint32_t word = atomic_load(word_of(gpu));
    if (self.is_unscheduled) {
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

static void send_line(const char *format, const char *first, const char *second) {
    char line[NVSHARE_LINE_LONGEST];
    int length = snprintf(line, sizeof line, format, first, second);
    if (length > 0 && (size_t)length < sizeof line)
        listener_send(line, (size_t)length);
}

static void ask_for(int gpu) {
    struct place *place = &self.places[gpu];
    if (place->has_asked || place->phase == STOPPING || !self.is_current)
        return;
    place->has_asked = true;
    send_line("want gpus=%s\n", devices_uuid(gpu), "");
}

static void tell_use(int gpu) {
    struct place *place = &self.places[gpu];
    struct memory_use use = memory_own_use(gpu);
    if (!self.is_current || !memcmp(&use, &place->told, sizeof use))
        return;
    char line[256];
    int length = snprintf(line, sizeof line, "using gpu=%s pageable=%llu unpageable=%llu\n", devices_uuid(gpu),
                          (unsigned long long)use.pageable, (unsigned long long)use.unpageable);
    place->told = use;
    listener_send(line, (size_t)length);
}

/* ------------------------------------------------------------------------------------------------ turns begin and end */

static bool is_of_turn(int gpu, const char *turn) {
    return self.places[gpu].phase != NO_TURN_HELD && !strcmp(self.places[gpu].turn, turn);
}

/* Shuts the gate of every GPU of a turn; what is in flight goes on, turns_tick sees it end. */
static void stop_turn(const char *turn, const char *reason) {
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        struct place *place = &self.places[gpu];
        if (!is_of_turn(gpu, turn) || place->phase == STOPPING)
            continue;
        close_gate(gpu);
        place->phase = STOPPING;
        place->stopped = place->counter;
        place->is_flushed = false;
        place->reason = reason;
    }
}

/* Everything of the turn has ended: say so, and ask again for those who wait. */
static void finish_turn(const char *turn, const char *reason) {
    char line[160], name[TURN_TEXT];
    uint64_t busy = 0;
    snprintf(name, sizeof name, "%s", turn);
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        struct place *place = &self.places[gpu];
        if (!is_of_turn(gpu, name))
            continue;
        busy += place->busy_ns + flight_take_busy(gpu);
        place->busy_ns = 0;
        place->phase = NO_TURN_HELD;
        if (place->next_word)
            set_word(gpu, place->next_word);
        place->next_word = NULL;
        tell_use(gpu);
    }
    self.totals.busy_ns += busy;
    int length = snprintf(line, sizeof line, "done turn=%s reason=%s busy_us=%llu\n", name, reason,
                          (unsigned long long)(busy / 1000));
    if (self.is_current)
        listener_send(line, (size_t)length);
    for (int gpu = 0; gpu < devices_count(); gpu++)
        if (self.places[gpu].waiters)
            ask_for(gpu);
}

static bool turn_has_drained(const char *turn) {
    bool is_empty = true;
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        struct place *place = &self.places[gpu];
        if (!is_of_turn(gpu, turn))
            continue;
        if (!place->is_flushed && slots_clear(gpu)) {
            flight_flush(gpu);
            place->is_flushed = true;
        }
        if (!place->is_flushed || !flight_is_empty(gpu))
            is_empty = false;
    }
    return is_empty;
}

static void begin_turn(int gpu, const char *turn, const struct line *line) {
    struct place *place = &self.places[gpu];
    const char *dot = strchr(turn, '.');
    bool was_wanted = place->is_wanted && !strcmp(place->turn, turn);
    snprintf(place->turn, sizeof place->turn, "%s", turn);
    place->counter = dot ? (uint32_t)strtoull(dot + 1, NULL, 10) : 0;
    place->phase = HELD;
    place->stopped = 0;
    place->has_asked = false;
    place->is_beside = line_number(line, "beside", 0) != 0;
    place->is_wanted = was_wanted || line_number(line, "waiting", 0) != 0;
    if (!was_wanted)
        place->keep_ns = line_number(line, "keep_ms", KEEP_MS) * MS;
    place->idle_since = 0;
    if (place->next_word)
        set_word(gpu, place->next_word);
    place->next_word = NULL;
    try_to_open(gpu);
    wake_sleepers(gpu);
}

/* ------------------------------------------------------------------------------------------------ what the daemon says */

static void hear_grant(const struct line *line) {
    const char *turn = line_get(line, "turn"), *list = line_get(line, "gpus");
    bool is_new = false;
    if (!turn || !list || strlen(turn) >= TURN_TEXT)
        return;
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        if (!strstr(list, devices_uuid(gpu) + 4))
            continue;
        is_new |= strcmp(self.places[gpu].turn, turn) != 0;
        begin_turn(gpu, turn, line);
    }
    self.totals.turns += is_new;
    self.totals.neighbours += is_new && line_number(line, "waiting", 0);
}

static void hear_wanted(const struct line *line) {
    const char *turn = line_get(line, "turn");
    bool is_first = false;
    for (int gpu = 0; turn && gpu < devices_count(); gpu++) {
        if (!is_of_turn(gpu, turn))
            continue;
        is_first |= !self.places[gpu].is_wanted;
        self.places[gpu].is_wanted = true;
        self.places[gpu].keep_ns = line_number(line, "keep_ms", KEEP_MS) * MS;
        self.places[gpu].idle_since = 0;
    }
    self.totals.neighbours += is_first;
}

static void hear_yield(const struct line *line) {
    const char *turn = line_get(line, "turn");
    if (turn)
        stop_turn(turn, "yield");
}

/* Over, whatever is in flight: its end is still waited for, so that no new turn begins on top of the old one's work. */
static void hear_revoked(const struct line *line) {
    const char *turn = line_get(line, "turn");
    if (turn)
        stop_turn(turn, "yield");
}

static void hear_reserved(const struct line *line) {
    const char *uuid = line_get(line, "gpu");
    int gpu = uuid ? devices_find(uuid) : -1;
    if (gpu >= 0)
        self.reserved[gpu] = line_number(line, "bytes", 0);
    self.reserve_answer = 1;
    pthread_cond_broadcast(&self.changed);
}

static void hear_error(const struct line *line) {
    const char *code = line_get(line, "code"), *message = line_get(line, "message"), *verb = line_get(line, "verb");
    if (verb && !strcmp(verb, "reserve")) {
        self.reserve_answer = -1;
        pthread_cond_broadcast(&self.changed);
    }
    say_debug("the scheduler refused %s: %s (%s)", verb ? verb : "a line", code ? code : "?", message ? message : "");
}

/* A page of the gate, mapped for good: a thread may still be reading the old one. */
static const char *map_gate(int descriptor) {
    void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, descriptor, 0);
    bool is_gate = page != MAP_FAILED && !memcmp(page, NVSHARE_SHARED_MEMORY_GATE_MAGIC, 8);
    return is_gate ? page : NULL;
}

static void *map_ledger(int descriptor, int gpu_count) {
    size_t line = NVSHARE_SHARED_MEMORY_LINE;
    size_t size = line + NVSHARE_SHARED_MEMORY_LEDGER_SLOTS * line * (1 + (size_t)gpu_count);
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
        struct place *place = &self.places[gpu];
        if (place->phase == HELD && !self.is_unscheduled) {
            place->next_word = word;
            continue;
        }
        close_gate(gpu);
        set_word(gpu, word);
        place->next_word = NULL;
        place->stopped = 0;
    }
}

static bool hear_welcome(const struct line *line, const int *descriptors, int count) {
    const char *list = line_get(line, "gpus"), *loss = line_get(line, "on_loss"), *mode = line_get(line, "mode");
    const char *fds = line_get(line, "fds"), *epoch = line_get(line, "epoch"), *kind = line_get(line, "allocation");
    bool has_ledger = count > 1 && (!fds || strstr(fds, "ledger"));
    const char *page = count > 0 ? map_gate(descriptors[0]) : NULL;
    if (!list || !page) {
        say("the scheduler's welcome brings no gate: it is of another version, or not ours");
        return false;
    }
    int gpu_count = devices_adopt(list);
    flight_set_bound((unsigned)line_number(line, "flight_ms", NVSHARE_WIRE_FLIGHT_MS), (unsigned)gpu_count);
    adopt_words(page, list);
    memory_adopt(has_ledger ? map_ledger(descriptors[1], gpu_count) : NULL, (unsigned)gpu_count,
                 (unsigned)line_number(line, "slot", 0),
                 line_number(line, "memory", UINT64_MAX), kind && !strcmp(kind, "plain"));
    snprintf(self.epoch, sizeof self.epoch, "%s", epoch ? epoch : "");
    snprintf(self.mode, sizeof self.mode, "%s", mode ? mode : "");
    if (loss)
        self.runs_on_loss = !strcmp(loss, "run");
    self.announce_ns = line_number(line, "announce_ms", NVSHARE_WIRE_ANNOUNCE_MS) * MS;
    self.is_welcomed = self.is_current = true;
    self.is_unscheduled = false;
    memset(self.reserved, 0, sizeof self.reserved);
    for (int gpu = 0; gpu < gpu_count; gpu++)
        if (self.places[gpu].waiters && self.places[gpu].phase == NO_TURN_HELD)
            ask_for(gpu);
    pthread_cond_broadcast(&self.changed);
    return true;
}

bool turns_hear(struct line *line, const int *descriptors, int count) {
    static const struct {
        const char *verb;
        void (*hear)(const struct line *line);
    } verbs[] = {{"grant", hear_grant},       {"wanted", hear_wanted}, {"yield", hear_yield}, {"revoked", hear_revoked},
                 {"reserved", hear_reserved}, {"error", hear_error}};
    if (!strcmp(line->verb, "welcome"))
        return hear_welcome(line, descriptors, count);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(line->verb, verbs[i].verb))
            verbs[i].hear(line);
    return true;
}

/* ------------------------------------------------------------------------------------------------ hello, loss */

static size_t add_held(char *into, size_t at, size_t size, bool is_beside) {
    const char *before = is_beside ? " beside=" : " holding=";
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        struct place *place = &self.places[gpu];
        if (place->phase == NO_TURN_HELD || place->is_beside != is_beside || self.is_unscheduled)
            continue;
        at += (size_t)snprintf(into + at, size - at, "%s%s@%s", before, place->turn, devices_uuid(gpu));
        before = ",";
    }
    return at;
}

static size_t add_environment(char *into, size_t at, size_t size) {
    const char *mode = getenv(NVSHARE_NAMES_ENV_MODE), *loss = getenv(NVSHARE_NAMES_ENV_ON_LOSS);
    if (mode && *mode)
        at = line_add(into, at, size, "mode", mode);
    if (loss && *loss)
        at = line_add(into, at, size, "on_loss", loss);
    return at;
}

size_t turns_hello(char *into, size_t size) {
    char visible[NVSHARE_LINE_LONGEST / 2];
    if (!devices_list_visible(visible, sizeof visible))
        return 0;
    size_t at = (size_t)snprintf(into, size, "hello v=%d pid=%d gpus=%s", NVSHARE_WIRE_VERSION, (int)getpid(), visible);
    at = add_held(into, at, size, false);
    at = add_held(into, at, size, true);
    at = add_environment(into, at, size);
    if (at + 2 > size)
        return 0;
    into[at++] = '\n';
    return at;
}

void turns_connected(bool is_connected, uint64_t now) {
    bool was_current = self.is_current;
    self.is_current = false;
    if (is_connected)
        return;
    if (was_current || !self.lost_ns)
        self.lost_ns = now;
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        self.places[gpu].has_asked = false;
        self.places[gpu].told = (struct memory_use){0};
    }
    if (self.is_reserving)
        self.reserve_answer = 1; /* nobody to ask: the cap of the ledger still holds */
    pthread_cond_broadcast(&self.changed);
}

/* Nobody answered for the whole window. */
static void give_up_on_daemon(void) {
    if (self.runs_on_loss && !self.is_unscheduled) {
        say("no scheduler: going on without turns (NVSHARE_ON_LOSS=run)");
        self.is_unscheduled = true;
        for (int gpu = 0; gpu < MOST_GPUS; gpu++) {
            self.places[gpu].phase = NO_TURN_HELD;
            set_word(gpu, &unscheduled_word);
            atomic_store(&gpus[gpu].allowed, 1);
        }
        pthread_cond_broadcast(&self.changed);
    }
    for (int gpu = 0; gpu < devices_count() && !self.runs_on_loss; gpu++)
        if (self.places[gpu].phase == HELD)
            stop_turn(self.places[gpu].turn, "yield");
}

/* ------------------------------------------------------------------------------------------------ time passes */

/* An event behind everything launched on the GPU: the gate is shut for the moment of it. */
static bool flush_all(int gpu, unsigned patience_ms) {
    uint64_t before = atomic_exchange(&gpus[gpu].allowed, NO_TURN);
    bool is_clear = slots_clear_within(gpu, patience_ms);
    if (is_clear)
        flight_flush(gpu);
    atomic_store(&gpus[gpu].allowed, before);
    return is_clear;
}

/* Nothing launched and nothing in flight since `idle_since`; the gate is shut for the moment of looking. */
static bool has_been_idle(int gpu, uint64_t now) {
    struct place *place = &self.places[gpu];
    uint64_t activity = flight_activity(gpu);
    if (activity != place->activity || !slots_clear(gpu)) {
        place->activity = activity;
        place->idle_since = 0;
        return false;
    }
    if (!place->idle_since) {
        bool is_flushed = flush_all(gpu, 0);
        place->activity = flight_activity(gpu);
        if (!is_flushed || !flight_is_empty(gpu))
            return false;
        place->idle_since = now;
    }
    return now - place->idle_since >= place->keep_ns;
}

static bool turn_is_idle(const char *turn, uint64_t now) {
    bool is_idle = true;
    for (int gpu = 0; gpu < devices_count(); gpu++)
        if (is_of_turn(gpu, turn) && !has_been_idle(gpu, now))
            is_idle = false;
    return is_idle;
}

static uint64_t tick_stopping(struct place *place) {
    if (!turn_has_drained(place->turn))
        return DRAIN_TICK_NS;
    finish_turn(place->turn, place->reason);
    return UINT64_MAX;
}

static uint64_t tick_held(struct place *place, uint64_t now) {
    if (place->next_word && now >= self.lost_ns + self.announce_ns) {
        stop_turn(place->turn, "yield"); /* a daemon is back, but has not said that we may go on */
        return 0;
    }
    if (!place->is_wanted || !self.is_current)
        return UINT64_MAX;
    if (!turn_is_idle(place->turn, now))
        return place->keep_ns / 4 < IDLE_TICK_NS && place->keep_ns ? place->keep_ns / 4 : IDLE_TICK_NS;
    stop_turn(place->turn, "idle");
    return 0;
}

uint64_t turns_tick(uint64_t now) {
    uint64_t next = UINT64_MAX;
    if (!self.is_current) {
        uint64_t end = (self.lost_ns ? self.lost_ns : (self.lost_ns = now)) + self.announce_ns;
        if (now >= end)
            give_up_on_daemon();
        else
            next = end - now;
    }
    for (int gpu = 0; gpu < devices_count(); gpu++) {
        struct place *place = &self.places[gpu];
        uint64_t wish = UINT64_MAX;
        if (place->phase == HELD)
            wish = tick_held(place, now);
        if (place->phase == STOPPING)
            wish = tick_stopping(place);
        next = wish < next ? wish : next;
    }
    return next;
}

/* ------------------------------------------------------------------------------------------------ application threads */

bool turns_ready(void) {
    return turns_ready_within(UINT_MAX);
}

static void prepare(void) {
    turns_lock();
    for (int gpu = 0; gpu < MOST_GPUS; gpu++)
        if (!word_of(gpu))
            atomic_store(&gpus[gpu].word, &closed_word), close_gate(gpu);
    const char *loss = getenv(NVSHARE_NAMES_ENV_ON_LOSS);
    self.runs_on_loss = loss && !strcmp(loss, "run");
    turns_unlock();
    while (!listener_start())
        usleep(NVSHARE_WIRE_RETRY_MS * 1000);
}

bool turns_ready_within(unsigned milliseconds) {
    if (LIKELY(self.is_welcomed) || self.is_unscheduled)
        return true;
    prepare();
    turns_lock();
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += milliseconds / 1000;
    int failure = 0;
    while (!self.is_welcomed && !self.is_unscheduled && failure != ETIMEDOUT)
        failure = pthread_cond_timedwait(&self.changed, &self.lock, &limit);
    turns_unlock();
    return self.is_welcomed || self.is_unscheduled;
}

static void sleep_on(const _Atomic uint32_t *word, uint32_t seen) {
    struct timespec limit = {0, (long)BACKSTOP_NS};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, NULL, 0);
}

bool turns_wait(int gpu) {
    if (LIKELY(gate_is_open(gpu)))
        return true;
    uint64_t began = now_ns();
    turns_lock();
    self.places[gpu].waiters++;
    while (!try_to_open(gpu)) {
        const _Atomic uint32_t *word = word_of(gpu);
        uint32_t seen = atomic_load(word);
        ask_for(gpu);
        turns_unlock();
        sleep_on(word, seen);
        turns_lock();
    }
    self.places[gpu].waiters--;
    self.totals.waited_ns += now_ns() - began;
    turns_unlock();
    return true;
}

void turns_flush(int gpu) {
    turns_lock();
    flush_all(gpu, 100);
    turns_unlock();
}

bool turns_reserve(int gpu, uint64_t bytes) {
    char text[32];
    bool is_granted = true;
    turns_lock();
    while (self.is_reserving)
        pthread_cond_wait(&self.changed, &self.lock);
    if (self.is_current && bytes > self.reserved[gpu]) {
        self.is_reserving = true;
        self.reserve_answer = 0;
        snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
        send_line("reserve gpu=%s bytes=%s\n", devices_uuid(gpu), text);
        while (!self.reserve_answer)
            pthread_cond_wait(&self.changed, &self.lock);
        is_granted = self.reserve_answer > 0;
        self.is_reserving = false;
        pthread_cond_broadcast(&self.changed);
    }
    turns_unlock();
    return is_granted;
}

void turns_tell_use(int gpu) {
    turns_lock();
    tell_use(gpu);
    turns_unlock();
}

void turns_after_fork(void) {
    pthread_mutex_init(&self.lock, NULL);
    pthread_cond_init(&self.changed, NULL);
    self.is_welcomed = self.is_current = self.is_unscheduled = self.is_reserving = false;
    self.lost_ns = 0;
    memset(self.places, 0, sizeof self.places);
    memset(&self.totals, 0, sizeof self.totals);
    memset(self.reserved, 0, sizeof self.reserved);
    for (int gpu = 0; gpu < MOST_GPUS; gpu++) {
        close_gate(gpu);
        atomic_store(&gpus[gpu].word, &closed_word);
    }
}
