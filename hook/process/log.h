/* What the hook says on stderr: nothing, unless NVSHARE_LOG asks for it or something must be known once. */
#ifndef NVSHARE_LOG_H
#define NVSHARE_LOG_H

#include <stdbool.h>

void log_check_level(void); /* says once when NVSHARE_LOG is none of its values */
bool log_is_debug(void);
bool log_wants_summary(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
