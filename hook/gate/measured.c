/* The table of what is learned.  An entry is never freed: threads keep pointers to it.
 *
 * The rule: a new shape is guessed from its function: its longest known time, and more if the shape is larger than any that
 * was timed.  The table is bounded; a shape that finds no room in it shares the record of its function. */
#include "gate/measured.h"

#include <stdlib.h>

#include "process/lock_order.h"

#define BUCKETS 16384
#define MOST_KINDS 65536
#define FIRST_SAMPLES 3   /* of a kind: each is timed at once, later ones now and then … */
#define MOST_QUESTIONS 16 /* … and so are those of a kind whose times are never exact */

static struct measured *kinds[BUCKETS];
static unsigned kind_count;

/* The size of the work: blocks, or bytes to the next power of two. */
static uint64_t units_of(const struct key *key) {
    if (key->words[2] == UINT64_MAX)
        return UINT64_C(1) << (key->words[1] & 63);
    uint64_t plane = (key->words[1] & UINT32_MAX) * (key->words[1] >> 32), depth = key->words[2] & UINT32_MAX;
    return plane && depth ? plane * depth : 1;
}

static struct measured *find(const struct key *key) {
    struct measured *kind = kinds[key_hash(key) % BUCKETS];
    while (kind && !same_key(&kind->key, key))
        kind = kind->next;
    return kind;
}

static struct measured *add(const struct key *key, struct measured *function, uint64_t expected_ns) {
    struct measured *kind = calloc(1, sizeof *kind);
    if (!kind)
        return NULL;
    struct measured **bucket = &kinds[key_hash(key) % BUCKETS];
    *kind = (struct measured){.key = *key, .expected_ns = expected_ns, .function = function, .next = *bucket};
    *bucket = kind;
    kind_count++;
    return kind;
}

static uint64_t expected_of(const struct measured *kind) {
    return atomic_load_explicit(&kind->expected_ns, memory_order_relaxed);
}

static uint64_t guess(const struct measured *function, const struct key *key) {
    uint64_t longest = expected_of(function), units = units_of(key);
    if (longest == UNKNOWN_NS || units <= function->most_units)
        return longest;
    return (uint64_t)((double)longest * ((double)units / (double)function->most_units));
}

static struct measured *look_up(const struct key *key) {
    struct measured *kind = find(key);
    if (kind)
        return kind;
    struct key plain = {{key->words[0]}};
    struct measured *function = find(&plain);
    if (!function)
        function = add(&plain, NULL, UNKNOWN_NS);
    return !function || kind_count >= MOST_KINDS ? function : add(key, function, guess(function, key));
}

struct measured *measured_of(const struct key *key) {
    lock_take(LOCK_MEASURED);
    struct measured *kind = look_up(key);
    lock_release(LOCK_MEASURED);
    return kind;
}

/* ------------------------------------------------------------------------------------------------ learning */

static void set(struct measured *kind, uint64_t nanoseconds) {
    atomic_store_explicit(&kind->expected_ns, nanoseconds, memory_order_relaxed);
}

/* A function's record has its longest time; it follows shorter ones slowly. */
static void learn_function(struct measured *function, uint64_t each_ns, uint64_t units) {
    uint64_t before = expected_of(function);
    set(function, before == UNKNOWN_NS || each_ns > before ? each_ns : before - (before - each_ns) / 64);
    function->most_units = units > function->most_units ? units : function->most_units;
}

void measured_learn(struct measured *kind, uint64_t each_ns, bool is_exact) {
    lock_take(LOCK_MEASURED);
    uint64_t before = expected_of(kind), each = each_ns ? each_ns : 1;
    if (is_exact || before == UNKNOWN_NS || each < before)
        set(kind, !is_exact || !kind->samples || each > before ? each : before - (before - each) / 2);
    if (is_exact) {
        kind->samples++;
        learn_function(kind->function ? kind->function : kind, each, units_of(&kind->key));
    }
    lock_release(LOCK_MEASURED);
}

/* A new function; a kind that was timed only a few times; a guess for a shape that comes again, or that is twice as large as
 * any known one.  A shape that comes only once is not worth two events. */
static bool wants_timing(const struct measured *kind) {
    bool is_first = kind->asked == 1, is_guess = kind->function && !kind->samples;
    bool is_far = is_guess && units_of(&kind->key) / 2 > kind->function->most_units;
    return kind->samples < FIRST_SAMPLES && kind->asked < MOST_QUESTIONS &&
           (!is_guess || !is_first || is_far || expected_of(kind) == UNKNOWN_NS);
}

bool measured_wants_timing(struct measured *kind) {
    if (kind->samples >= FIRST_SAMPLES) /* nearly always; the callers' own lock guards it */
        return false;
    lock_take(LOCK_MEASURED);
    kind->asked++;
    bool wants = wants_timing(kind);
    lock_release(LOCK_MEASURED);
    return wants;
}
