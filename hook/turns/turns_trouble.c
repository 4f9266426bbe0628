/* What the user must hear when no turn can come: the scheduler refuses this process, or nobody answers.
 *
 * The rule: a process that was never welcomed and is refused gets errors from its calls instead of waiting for ever.  One
 * that was welcomed before goes on waiting, since the refusal may be over with the scheduler's next start.  All of this is
 * under the lock of the turns, but turns_are_refused. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "daemon/listener.h"
#include "driver/devices.h"
#include "process/clock.h"
#include "process/environment.h"
#include "process/log.h"
#include "turns/turns_state.h"

#define SECOND (1000 * MS)
#define FIRST_PAUSE_NS SECOND
#define LONGEST_PAUSE_NS (60 * SECOND) /* each refusal is counted by the daemon, and shown to operators */
#define PATIENCE_NS (10 * SECOND)
#define REMINDER_NS (60 * SECOND)

static struct {
    atomic_bool is_final;
    bool has_answered; /* this connection's hello was refused, and may be welcomed later */
    uint64_t hello_at, pause;
    char code[24];
    uint64_t silent_since, reminder_at;
} self;

bool turns_are_refused(void) { return atomic_load(&self.is_final); }

/* ------------------------------------------------------------------------------------------------ a refused hello */

static const char *remedy_for(const char *code) {
    static const struct {
        const char *code, *remedy;
    } remedies[] = {
        {"not-yours", "Let it see the GPUs of its own container only: do not set CUDA_VISIBLE_DEVICES or NVIDIA_VISIBLE_DEVICES"},
        {"version", "Upgrade nvshare-guard: the hook and the scheduler are of different releases"},
        {"too-many", "Run fewer processes in this container"}};
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (!strcmp(remedies[i].code, code))
            return remedies[i].remedy;
    return "The scheduler's log has more";
}

bool turns_hear_refusal(const struct line *line, uint64_t now) {
    const char *code = line_get(line, "code"), *message = line_get(line, "message");
    bool may_change = line_number(line, "wait", 0) != 0, is_final = !may_change && !state.is_welcomed && !state.is_unscheduled;
    code = code ? code : "?";
    if (strncmp(self.code, code, sizeof self.code - 1)) {
        snprintf(self.code, sizeof self.code, "%s", code);
        say("the scheduler refused this process (%s): %s. %s. %s", code, message ? message : "it gave no reason", remedy_for(code),
            is_final ? "Until then its GPU calls return an error (CUDA_ERROR_NOT_PERMITTED)" : "It waits, and asks again");
    }
    self.has_answered = may_change;
    self.pause = !self.pause ? FIRST_PAUSE_NS : self.pause * 2 < LONGEST_PAUSE_NS ? self.pause * 2 : LONGEST_PAUSE_NS;
    self.hello_at = may_change ? 0 : now + self.pause;
    atomic_store(&self.is_final, is_final);
    pthread_cond_broadcast(&state.changed);
    return may_change;
}

bool turns_may_say_hello(uint64_t now) {
    self.has_answered = false; /* what a connection before this one was told */
    return now >= self.hello_at;
}

void turns_end_trouble(void) { memset(&self, 0, sizeof self); }

/* ------------------------------------------------------------------------------------------------ nobody answers */

static bool is_anybody_waiting(void) {
    bool is_waiting = state.welcome_waiters > 0;
    for (int gpu = 0; gpu < devices_count(); gpu++)
        is_waiting |= state.places[gpu].waiters > 0;
    return is_waiting && !state.is_unscheduled;
}

/* Once a second: who begins to wait does not wake the listener. */
uint64_t turns_remind(uint64_t now) {
    if (state.is_current || self.has_answered || turns_are_refused() || !is_anybody_waiting()) {
        self.silent_since = 0;
        return SECOND;
    }
    if (!self.silent_since) {
        self.silent_since = now;
        self.reminder_at = now + PATIENCE_NS;
    }
    if (now >= self.reminder_at) {
        say("no scheduler answers in %s (%s). This process has waited for %llu s and goes on waiting. See that nvshare-schedulerd"
            " runs on this node, and that its socket is mounted here",
            environment_sockets(), listener_trouble(), (unsigned long long)((now - self.silent_since) / SECOND));
        self.reminder_at = now + REMINDER_NS;
    }
    return SECOND;
}
