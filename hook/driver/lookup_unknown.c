/* Functions of the driver that functions.table does not know.
 *
 * The rule: a program that finds one whose name says that it starts work or allocates is told so, once.  It gets the
 * driver's function: what it does is neither scheduled nor counted. */
#include <fnmatch.h>
#include <stdatomic.h>
#include <string.h>

#include "driver/entries.h"
#include "driver/lookup.h"
#include "process/log.h"

static atomic_flag told = ATOMIC_FLAG_INIT;

static bool fits(const char *const *patterns, const char *name) {
    for (; *patterns; patterns++)
        if (!fnmatch(*patterns, name, 0))
            return true;
    return false;
}

static bool is_in_table(const char *name) {
    for (unsigned i = 0; i < entry_count; i++)
        if (!strcmp(entries[i].symbol, name) || !strcmp(entries[i].base, name))
            return true;
    return false;
}

bool lookup_is_risky(const char *name) {
    return fits(risk_patterns, name) && !fits(exempt_patterns, name) && !is_in_table(name);
}

void lookup_tell_unknown(const char *name) {
    (atomic_flag_test_and_set(&told) ? say_debug : say)(
        "the driver's function %s is not known to this hook: what it starts or allocates is neither scheduled nor counted;"
        " upgrade nvshare-guard",
        name);
}
