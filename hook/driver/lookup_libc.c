/* Finds a function in the C library's own symbol table.
 *
 * We export dlsym, so dlsym cannot tell us where the real one is; dlvsym could, but it is absent under musl and a
 * program may be hooked there as well.  Reads ELF only; knows nothing of CUDA.
 * It calls no function that compares strings: a sanitizer's runtime asks us for the real ones before its own can be called. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include <stdint.h>

#include "driver/lookup.h"

struct tables {
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *old_hash;
};

struct search {
    const char *name;
    void *found;
};

static bool begins_with(const char *text, const char *begin) {
    while (*begin && *text == *begin)
        text++, begin++;
    return !*begin;
}

static bool is_same(const char *one, const char *other) {
    while (*one && *one == *other)
        one++, other++;
    return *one == *other;
}

static bool is_c_library(const char *path) {
    static const char *const names[] = {"libc.so", "libc-", "libdl.so", "libdl-", "ld-musl", "libc.musl"};
    const char *name = path;
    for (const char *at = path; *at; at++)
        name = *at == '/' ? at + 1 : name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins_with(name, names[i]))
            return true;
    return false;
}

/* glibc has relocated the pointers of the dynamic section, musl has not. */
static const void *at(const struct dl_phdr_info *object, ElfW(Addr) address) {
    return (const void *)(address < object->dlpi_addr ? address + object->dlpi_addr : address); /* NOLINT */
}

static struct tables read_tables(const struct dl_phdr_info *object) {
    struct tables tables = {0};
    for (int i = 0; i < object->dlpi_phnum; i++) {
        if (object->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *entry = (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++) {
            const void *where = at(object, entry->d_un.d_ptr);
            if (entry->d_tag == DT_SYMTAB)
                tables.symbols = where;
            else if (entry->d_tag == DT_STRTAB)
                tables.strings = where;
            else if (entry->d_tag == DT_GNU_HASH)
                tables.gnu_hash = where;
            else if (entry->d_tag == DT_HASH)
                tables.old_hash = where;
        }
    }
    return tables;
}

/* The number of symbols: told by the old hash table, else the end of the last chain of the GNU one. */
static uint32_t count_symbols(const struct tables *tables) {
    if (tables->old_hash)
        return tables->old_hash[1];
    const uint32_t *hash = tables->gnu_hash, buckets = hash[0], first = hash[1];
    const uint32_t *bucket = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / 4), *chain = bucket + buckets;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

static int look_into(struct dl_phdr_info *object, size_t size, void *argument) {
    (void)size;
    struct search *search = argument;
    if (!object->dlpi_name || !is_c_library(object->dlpi_name))
        return 0;
    struct tables tables = read_tables(object);
    if (!tables.symbols || !tables.strings || !(tables.gnu_hash || tables.old_hash))
        return 0;
    for (uint32_t i = 0, count = count_symbols(&tables); i < count; i++) {
        const ElfW(Sym) *symbol = &tables.symbols[i];
        if (symbol->st_shndx == SHN_UNDEF || (symbol->st_info & 15) != STT_FUNC)
            continue;
        if (!is_same(tables.strings + symbol->st_name, search->name))
            continue;
        search->found = (void *)(object->dlpi_addr + symbol->st_value); /* NOLINT */
        return 1;
    }
    return 0;
}

void *libc_function(const char *name) {
    struct search search = {name, NULL};
    dl_iterate_phdr(look_into, &search);
    return search.found;
}
