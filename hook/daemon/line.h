/* Reading and writing a line of the wire: `verb key=value …`. */
#ifndef NVSHARE_LINE_H
#define NVSHARE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINE_WORDS 32

struct line {
    const char *verb;
    int count;
    const char *keys[LINE_WORDS];
    const char *values[LINE_WORDS];
};

/* Splits `text` in place; false when it is not a line. */
bool line_read(char *text, struct line *line);
/* The value of a key, or NULL. */
const char *line_get(const struct line *line, const char *key);
uint64_t line_number(const struct line *line, const char *key, uint64_t otherwise);
/* Appends ` key=value`, escaped; the line ends at `at` now. */
size_t line_add(char *into, size_t at, size_t size, const char *key, const char *value);

#endif
