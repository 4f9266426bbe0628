/* The state that the files of turns.h share.
 *
 * The rule: all of it is under the lock of the turns, and only the files of turns.h include this header.
 *
 * Each GPU is in one of three phases.  No other event changes the phase, and `-` means that it stays.
 *
 *   event                                              NO_TURN_HELD   HELD             STOPPING       function
 *   -------------------------------------------------  -------------  ---------------  -------------  -----------------
 *   a waiting thread finds the word open               HELD           -                -              begin_unannounced
 *   `grant`                                            HELD           HELD             HELD           begin_turn
 *   `yield` of the turn                                STOPPING (1)   STOPPING         -              stop_turn
 *   `revoked` of the turn                              -              STOPPING (2)     - (2)          hear_revoked
 *   idle for long enough while another waits           -              STOPPING         -              tick_held
 *   no daemon for `announce_ms`, on_loss=wait          -              STOPPING         -              give_up_on_daemon
 *   no daemon for `announce_ms`, on_loss=run           - (3)          NO_TURN_HELD (3) NO_TURN_HELD   give_up_on_daemon
 *   a new daemon has not answered for the turn (4)     -              STOPPING         -              tick_held
 *   all work of the turn has ended (5)                 -              -                NO_TURN_HELD   finish_turn
 *   fork, in the child                                 -              NO_TURN_HELD     NO_TURN_HELD   turns_after_fork
 *
 * (1) Only if the word is still open for that turn: it was given up as idle here, and a partner may need this process to end it
 *     all the same.  (2) `is_revoked` is set: a thread with more work may ask for the next turn at once.
 * (3) The gate stays open without turns (`is_unscheduled`) until the next welcome closes it.
 * (4) Within `announce_ms` of the loss; until then the word of the old page counts (`next_word`).
 * (5) In this process, and in the container's other ones too unless the turn was given up as idle.  One that shows nothing of
 *     the turn is waited for until `PATIENCE_WITH_OTHERS_NS` has passed.
 * A loss, a hello and a welcome change no phase.  The gate may be open only in HELD, or while `is_unscheduled`.
 *
 * A field of `struct place` holds what it says in these phases only; in the others it holds what was left there.
 *
 *   field                                              phases               changed by
 *   -------------------------------------------------  -------------------  -----------------------------------------------
 *   turn, counter (6); is_beside                       HELD, STOPPING       begin_turn, begin_unannounced
 *   is_wanted, keep_ns, idle_since                     HELD                 these two; hear_wanted, has_been_idle, turns_wait
 *   began_ns, quantum_ns; activity                     HELD                 begin_turn, begin_unannounced; has_been_idle
 *   next_look, look_every_ns, told_time_ns             HELD (7)             tick_time
 *   next_word                                          HELD, STOPPING       adopt_words, begin_turn, finish_turn
 *   reason, drain_since, is_revoked                    STOPPING             stop_turn, hear_revoked
 *   is_flushed, passes, last_pass                      STOPPING             stop_turn, own_drain, let_partners_through,
 *                                                                           take_pass, begin_turn
 *   stopped                                            all                  stop_turn, adopt_words; begin_turn, begin_unannounced
 *   has_asked                                          all                  ask_for, begin_turn, turns_connected
 *   waiters; pause_since, pause_ns                     all                  turns_wait; end_pause, has_been_idle
 *   told; time_before_ns                               all                  tell_use, turns_connected; hear_welcome
 *
 * (6) In NO_TURN_HELD `turn` is the name of the last one, so that a turn that begins again is counted once.
 * (7) While a daemon is there. */
#ifndef NVSHARE_TURNS_STATE_H
#define NVSHARE_TURNS_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "daemon/line.h"
#include "gate/gate.h"
#include "memory/memory.h"
#include "turns/turns.h"

#define MOST_GPUS NVSHARE_SHARED_MEMORY_MOST_GPUS
#define TURN_TEXT 32
#define KEEP_MS 5 /* for a grant that says that another container waits, but not how long to keep the GPU */

enum phase { NO_TURN_HELD, HELD, STOPPING };

/* The state of each GPU apart from the gate. */
struct place {
    enum phase phase;
    char turn[TURN_TEXT];  /* its name, epoch.counter */
    uint32_t counter;      /* the low 32 bits */
    uint32_t stopped;      /* this process has stopped for the turn with that counter; 0: for none */
    bool is_beside, is_flushed, is_wanted, has_asked;
    bool is_revoked;       /* revoked while this process is stopped for it: it ends only for us */
    const char *reason;    /* of the next `done` */
    uint64_t keep_ns, idle_since, activity;
    uint64_t began_ns, quantum_ns; /* of the turn; 0: not told */
    uint64_t pause_since, pause_ns; /* when the present pause began, 0: none; how long pauses usually are */
    uint64_t drain_since, last_pass;
    uint64_t next_look, look_every_ns;        /* at the time in flight … */
    uint64_t told_time_ns, time_before_ns;    /* … what was told of it, and what it was at the welcome */
    const _Atomic uint32_t *next_word; /* in the page of a new daemon, until it has answered for the turn that is held */
    int waiters, passes; /* passes: launches let through a shut gate, not yet taken */
    struct memory_use told;
};

struct turns_state {
    pthread_cond_t changed;
    atomic_bool is_welcomed;  /* ever */
    bool is_current;   /* this connection was welcomed */
    atomic_bool is_unscheduled;
    bool runs_on_loss;
    char epoch[TURN_TEXT], mode[16];
    uint64_t lost_ns, announce_ns;
    _Atomic uint64_t answer_by; /* until when queries wait for the first welcome; 0: there was no query yet */
    uint64_t reserved[MOST_GPUS];
    int reserve_answer; /* 0: none yet, 1: granted, -1: refused */
    bool is_reserving;
    int welcome_waiters; /* threads that wait for the first welcome */
    struct place places[MOST_GPUS];
    struct turns_totals totals;
};
extern struct turns_state state;
extern const _Atomic uint32_t closed_word; /* of a GPU before its first welcome */

/* The functions that the listener calls (struct daemon_handler), under the lock like all of this. */
size_t turns_hello(char *into, size_t size);
void turns_connected(bool is_connected, uint64_t now);
bool turns_hear(struct line *line, const int *descriptors, int count);
uint64_t turns_tick(uint64_t now);

void wake_sleepers(int gpu);
void set_word(int gpu, const _Atomic uint32_t *word);
void close_gate(int gpu);
const _Atomic uint32_t *word_of(int gpu);
void end_pause(int gpu, uint64_t now); /* a thread has work again */
void begin_unannounced(struct place *place, uint32_t word);
bool try_to_open(int gpu);
void send_line(const char *format, const char *first, const char *second);
void ask_for(int gpu);
void tell_use(int gpu);
bool is_of_turn(int gpu, const char *turn);
void stop_turn(const char *turn, const char *reason);
void finish_turn(const char *turn, const char *reason);
void begin_turn(int gpu, const char *turn, const struct line *line);
void give_up_on_daemon(void);
bool hear_welcome(const struct line *line, const int *descriptors, int count);
bool flush_all(int gpu, unsigned patience_ms);
void tell_time(int gpu); /* how long work has been in flight */

/* Of turns_trouble.c. */
bool turns_hear_refusal(const struct line *line, uint64_t now); /* of a hello; false: hang up */
bool turns_may_say_hello(uint64_t now);                         /* false: it was refused a moment ago */
void turns_end_trouble(void);                                   /* a welcome has come, or this is a forked child */
uint64_t turns_remind(uint64_t now); /* says that nobody answers, where it is due; nanoseconds until the next look */

#endif
