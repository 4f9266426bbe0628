/* How long a kernel lasts: the environment's table, its name, its parameter, or the default, in this order.
 *
 *   SIMGPU_KERNELS="name=5ms,prefix*=20us"      table; the first match wins
 *   train_5ms, step_250us                       a length at the end of the name
 *   allreduce_5ms_x2                            ends only when 2 such kernels have begun, anywhere
 *   anything_param                              its first parameter is a 64-bit number of nanoseconds
 *   SIMGPU_KERNEL_TIME=1ms                      all others (default 0)
 */
#include "kernel_time.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "shared/process/client.h"

static bool matches(const char *pattern, size_t length, const char *name) {
    if (length > 0 && pattern[length - 1] == '*')
        return strncmp(pattern, name, length - 1) == 0;
    return strlen(name) == length && strncmp(pattern, name, length) == 0;
}

static bool find_in_table(const char *name, uint64_t *length_ns) {
    const char *table = getenv("SIMGPU_KERNELS");
    char text[32];
    while (table && *table) {
        size_t entry = strcspn(table, ","), key = strcspn(table, "=,");
        if (key < entry && entry - key - 1 < sizeof text && matches(table, key, name)) {
            memcpy(text, table + key + 1, entry - key - 1);
            text[entry - key - 1] = '\0';
            return sg_parse_duration(text, length_ns);
        }
        table += entry + (table[entry] == ',');
    }
    return false;
}

/* "_x2" at the end: how many belong together; cuts it off. */
static uint32_t cut_partners(char *name) {
    char *mark = strrchr(name, '_'), *end;
    if (!mark || mark[1] != 'x' || !isdigit((unsigned char)mark[2]))
        return 0;
    unsigned long partners = strtoul(mark + 2, &end, 10);
    if (*end || partners < 2 || partners > 1024)
        return 0;
    *mark = '\0';
    return (uint32_t)partners;
}

static bool find_in_name(const char *name, uint64_t *length_ns) {
    const char *mark = strrchr(name, '_');
    if (!mark || !isdigit((unsigned char)mark[1]))
        return false;
    size_t digits = strspn(mark + 1, "0123456789.");
    return isalpha((unsigned char)mark[1 + digits]) && sg_parse_duration(mark + 1, length_ns);
}

static uint64_t hash(uint64_t seed, const char *text) {
    for (; *text; text++)
        seed = (seed ^ (unsigned char)*text) * 0x100000001B3ull;
    return seed;
}

void sg_describe_function(struct CUfunc_st *function) {
    char name[256];
    strncpy(name, function->name, sizeof name - 1);
    name[sizeof name - 1] = '\0';
    const char *group = getenv("SIMGPU_GROUP");
    function->partners = cut_partners(name);
    function->group_key = hash(hash(0xCBF29CE484222325ull, name), group ? group : "") | 1;
    function->length_ns = sg_client.settings.kernel_ns;
    bool known = find_in_table(function->name, &function->length_ns) || find_in_name(name, &function->length_ns);
    size_t length = strlen(name), suffix = strlen("_param");
    function->length_is_param = !known && length > suffix && strcmp(name + length - suffix, "_param") == 0;
    function->is_idle = function->length_ns == 0 && !function->length_is_param && !function->partners;
}
