/* What the hook says on stderr, one write a line; never anything in `quiet`, the default, but what must be known once. */
#include "process/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvshare_contract.h"

static bool level_is(const char *level) {
    const char *set = getenv(NVSHARE_NAMES_ENV_LOG);
    return set && !strcmp(set, level);
}

bool log_is_debug(void) { return level_is(NVSHARE_GRAMMAR_LOG_DEBUG); }

bool log_wants_summary(void) { return level_is(NVSHARE_GRAMMAR_LOG_SUMMARY) || log_is_debug(); }

void log_check_level(void) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const char *set = getenv(NVSHARE_NAMES_ENV_LOG);
    bool is_known = !set || !*set || level_is(NVSHARE_GRAMMAR_LOG_QUIET) || log_wants_summary();
    if (!is_known && !atomic_flag_test_and_set(&told))
        say("%s=%.40s is not known: write %s, %s or %s", NVSHARE_NAMES_ENV_LOG, set, NVSHARE_GRAMMAR_LOG_QUIET,
            NVSHARE_GRAMMAR_LOG_SUMMARY, NVSHARE_GRAMMAR_LOG_DEBUG);
}

static void write_line(const char *format, va_list arguments) {
    char text[1024];
    int head = snprintf(text, sizeof text, "nvshare: ");
    int length = vsnprintf(text + head, sizeof text - (size_t)head - 1, format, arguments);
    size_t end = strnlen(text, sizeof text - 2);
    text[end] = '\n';
    if (length >= 0 && write(STDERR_FILENO, text, end + 1) < 0)
        return;
}

void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

void say_debug(const char *format, ...) {
    if (!log_is_debug())
        return;
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}
