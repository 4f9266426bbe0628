/* The messages of the hook on stderr.
 *
 * The rule: the hook writes nothing, unless NVSHARE_LOG asks for it, or the user must know something; then it says it once. */
#ifndef NVSHARE_LOG_H
#define NVSHARE_LOG_H

#include <stdbool.h>

void log_check_level(void); /* says once if NVSHARE_LOG has an unknown value */
bool log_is_debug(void);
bool log_wants_summary(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
