/* A line of the wire.  Pure: text in, words out; what the words mean is turns.c's business. */
#include "daemon/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int hex(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)(digit | 32);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* Writes the value over itself without its %XX; false when an escape is broken. */
static bool unescape(char *value) {
    char *to = value;
    for (; *value; value++, to++) {
        *to = *value;
        if (*value != '%')
            continue;
        int high = hex(value[1]), low = high < 0 ? -1 : hex(value[2]);
        if (low < 0)
            return false;
        *to = (char)(high * 16 + low);
        value += 2;
    }
    *to = 0;
    return true;
}

bool line_read(char *text, struct line *line) {
    char *rest = text, *word = strsep(&rest, " ");
    *line = (struct line){.verb = word};
    if (!*word)
        return false;
    while ((word = strsep(&rest, " "))) {
        char *value = strchr(word, '=');
        if (!value || value == word || line->count == LINE_WORDS)
            return false;
        *value++ = 0;
        if (!unescape(value))
            return false;
        line->keys[line->count] = word;
        line->values[line->count++] = value;
    }
    return true;
}

const char *line_get(const struct line *line, const char *key) {
    for (int i = 0; i < line->count; i++)
        if (!strcmp(line->keys[i], key))
            return line->values[i];
    return NULL;
}

uint64_t line_number(const struct line *line, const char *key, uint64_t otherwise) {
    const char *value = line_get(line, key);
    char *end = NULL;
    if (!value || *value < '0' || *value > '9')
        return otherwise;
    uint64_t number = strtoull(value, &end, 10);
    return *end ? otherwise : number;
}

size_t line_add(char *into, size_t at, size_t size, const char *key, const char *value) {
    at += (size_t)snprintf(into + at, at < size ? size - at : 0, " %s=", key);
    for (; *value && at + 4 < size; value++) {
        bool is_plain = *value > ' ' && *value < 127 && *value != '=' && *value != '%';
        at += (size_t)snprintf(into + at, size - at, is_plain ? "%c" : "%%%02X", (unsigned char)*value);
    }
    return at;
}
