/* Makes, opens and checks the shared file.
 *
 * A new file is written under another name and linked into place, so nobody ever sees half a file; the one that loses
 * the race uses the winner's.  What does not carry our magic, version, size and checksum is refused with a sentence.
 */
#define _GNU_SOURCE
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ull

uint64_t sg_monotonic_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

static uint64_t pages(uint64_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static uint64_t checksum(const struct sg_header *header) {
    struct sg_header copy = *header;
    copy.checksum = 0;
    uint64_t hash = 0xCBF29CE484222325ull;
    for (size_t i = 0; i < sizeof copy; i++)
        hash = (hash ^ ((const unsigned char *)&copy)[i]) * 0x100000001B3ull;
    return hash;
}

static void read_boot_id(char boot_id[40]) {
    memset(boot_id, 0, 40);
    int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t length = read(file, boot_id, 36);
    if (length < 0)
        boot_id[0] = '\0';
    close(file);
}

static void lay_out(struct sg_header *header) {
    uint64_t entries = header->physics.record_entries;
    header->core_bytes = pages(sizeof(struct sg_core));
    header->context_bytes = pages(sizeof(struct sg_context) * SG_CONTEXTS);
    header->at_control = pages(sizeof *header);
    header->at_cores = header->at_control + pages(sizeof(struct sg_control));
    header->at_contexts = header->at_cores + 2 * header->core_bytes;
    header->at_slots = header->at_contexts + 2 * header->context_bytes;
    header->at_tails = header->at_slots + pages(sizeof(struct sg_slot) * SG_SLOTS);
    header->at_cast = header->at_tails + pages(sizeof(uint64_t) * SG_CONTEXTS * SG_CHANNELS);
    header->at_rings = header->at_cast + pages(sizeof(struct sg_cast) * SG_CAST);
    header->at_intervals =
        header->at_rings + (uint64_t)sizeof(struct sg_op) * SG_CONTEXTS * SG_CHANNELS * SG_RING;
    header->at_residency = header->at_intervals + pages(sizeof(struct sg_interval) * entries * header->devices);
    header->file_bytes = header->at_residency + pages(sizeof(struct sg_residency) * entries * header->devices);
}

static void fill_header(struct sg_header *header, const struct sg_settings *settings) {
    memset(header, 0, sizeof *header);
    header->magic = SG_MAGIC, header->version = SG_VERSION;
    header->devices = settings->devices;
    header->created_monotonic_ns = sg_monotonic_ns();
    read_boot_id(header->boot_id);
    header->physics = settings->physics;
    memcpy(header->card, settings->card, sizeof header->card);
    lay_out(header);
    header->checksum = checksum(header);
}

static void fill_start_state(const struct sg_map *map) {
    for (uint32_t which = 0; which < 2; which++) {
        struct sg_core *core = sg_core_at(map, which);
        core->next_serial = 1;
        for (uint32_t i = 0; i < SG_DEVICES; i++)
            core->device[i].running = core->device[i].last = -1;
    }
    for (uint32_t i = 0; i < SG_DEVICES; i++) {
        atomic_store(&map->control->fault[i].temperature, -1);
        atomic_store(&map->control->fault[i].busy_percent, -1);
        atomic_store(&map->control->fault[i].mig, map->header->card[i].mig);
    }
}

static bool map_file(struct sg_map *map, uint64_t bytes) {
    char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, map->descriptor, 0);
    if (base == MAP_FAILED)
        return false;
    map->base = base;
    map->header = (const struct sg_header *)(const void *)base;
    map->control = (struct sg_control *)(void *)(base + map->header->at_control);
    map->slots = (struct sg_slot *)(void *)(base + map->header->at_slots);
    map->cast = (struct sg_cast *)(void *)(base + map->header->at_cast);
    return true;
}

/* Writes a whole file under a name of its own; false with errno. */
static bool write_new_file(const char *path, const struct sg_settings *settings) {
    struct sg_header header;
    struct sg_map map = {.descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    if (map.descriptor < 0)
        return false;
    fill_header(&header, settings);
    bool written = ftruncate(map.descriptor, (off_t)header.file_bytes) == 0 &&
                   pwrite(map.descriptor, &header, sizeof header, 0) == (ssize_t)sizeof header &&
                   map_file(&map, header.file_bytes);
    if (written) {
        fill_start_state(&map);
        munmap(map.base, header.file_bytes);
        /* programs in containers run as other users */
        written = fchmod(map.descriptor, 0666) == 0;
    }
    close(map.descriptor);
    return written;
}

/* After this the path exists, made by us or by somebody faster. */
static bool make_file(const struct sg_settings *settings, bool replace, char problem[256]) {
    char fresh[600];
    snprintf(fresh, sizeof fresh, "%s.new.%d.%llx", settings->file, (int)getpid(),
             (unsigned long long)sg_monotonic_ns());
    bool made = write_new_file(fresh, settings);
    if (made && replace)
        made = rename(fresh, settings->file) == 0;
    else if (made)
        made = link(fresh, settings->file) == 0 || errno == EEXIST;
    int reason = errno;
    unlink(fresh);
    if (!made)
        snprintf(problem, 256, "cannot make %.100s: %s; set SIMGPU_FILE to a file in a folder you may write",
                 settings->file, strerror(reason));
    return made;
}

static bool refuse(char problem[256], const struct sg_settings *settings, const char *why) {
    snprintf(problem, 256, "%.120s %s; remove it, or name another with SIMGPU_FILE", settings->file, why);
    return false;
}

static bool same_devices(const struct sg_header *header, const struct sg_settings *settings) {
    return header->devices == settings->devices &&
           memcmp(header->card, settings->card, sizeof header->card) == 0;
}

/* Index i of the tables of variables in config.c: a variable given now must be what the file was made with. */
static bool same_physics(const struct sg_header *header, const struct sg_settings *settings) {
    const struct sg_physics *have = &header->physics, *want = &settings->physics;
    const bool differs[] = {
        have->slice_ns != want->slice_ns,
        have->switch_ns != want->switch_ns,
        have->overhead_bytes != want->overhead_bytes,
        have->page_bytes_per_s != want->page_bytes_per_s,
        have->copy_bytes_per_s != want->copy_bytes_per_s,
        have->pass_ns != want->pass_ns,
        have->speed < want->speed || have->speed > want->speed,
        have->overlap != want->overlap,
        have->record_entries != want->record_entries,
    };
    for (uint32_t i = 0; i < sizeof differs / sizeof *differs; i++)
        if (differs[i] && settings->physics_given & 1u << i)
            return false;
    return true;
}

static bool is_whole(const struct sg_header *header, uint64_t file_bytes) {
    return header->magic == SG_MAGIC && header->version == SG_VERSION && header->file_bytes == file_bytes &&
           header->devices >= 1 && header->devices <= SG_DEVICES && header->checksum == checksum(header);
}

/* The parts that processes change cannot be summed; but no index in them may point outside. */
static bool has_sane_state(const struct sg_map *map) {
    uint32_t active = atomic_load(&map->control->active);
    if (active > 1)
        return false;
    const struct sg_core *core = sg_core_at(map, active);
    const struct sg_context *contexts = sg_contexts_at(map, active);
    for (uint32_t i = 0; i < map->header->devices; i++)
        if (core->device[i].running < -1 || core->device[i].running >= SG_CONTEXTS)
            return false;
    for (uint32_t i = 0; i < SG_CONTEXTS; i++) {
        if (!(core->used[i / 64] >> (i % 64) & 1))
            continue;
        if (contexts[i].device >= map->header->devices || contexts[i].channels > SG_CHANNELS ||
            contexts[i].spans > SG_SPANS || contexts[i].serial == 0)
            return false;
    }
    return true;
}

static bool check_opened(struct sg_map *map, const struct sg_settings *settings, char problem[256]) {
    const struct sg_header *header = map->header;
    if (!has_sane_state(map))
        return refuse(problem, settings, "is damaged (its state points outside itself)");
    if (settings->devices_given && !same_devices(header, settings))
        return refuse(problem, settings, "was made for other devices than SIMGPU_DEVICES says now");
    if (!same_physics(header, settings))
        return refuse(problem, settings, "was made with other SIMGPU_ timing than is set now");
    return true;
}

enum opened { OPENED, ABSENT, REFUSED, STALE };

static enum opened open_existing(struct sg_map *map, const struct sg_settings *settings, char problem[256]) {
    struct sg_header header;
    struct stat status;
    char boot_id[40];
    map->descriptor = open(settings->file, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (map->descriptor < 0 && errno == ENOENT)
        return ABSENT;
    if (map->descriptor < 0) {
        snprintf(problem, 256, "cannot open %.120s: %s; make it readable and writable, or name another with SIMGPU_FILE",
                 settings->file, strerror(errno));
        return REFUSED;
    }
    if (fstat(map->descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
        pread(map->descriptor, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        !is_whole(&header, (uint64_t)status.st_size)) {
        refuse(problem, settings, "is not a simgpu file of this version, or it is damaged");
        return REFUSED;
    }
    read_boot_id(boot_id);
    if (strcmp(boot_id, header.boot_id) != 0)
        return STALE; /* its clock and all its processes ended with the last boot */
    if (!map_file(map, header.file_bytes)) {
        snprintf(problem, 256, "cannot map %.120s: %s; free some address space (ulimit -v)", settings->file,
                 strerror(errno));
        return REFUSED;
    }
    return check_opened(map, settings, problem) ? OPENED : REFUSED;
}

bool sg_open_file(struct sg_map *map, const struct sg_settings *settings, char problem[256]) {
    for (int attempt = 0; attempt < 3; attempt++) {
        *map = (struct sg_map){.descriptor = -1};
        enum opened opened = open_existing(map, settings, problem);
        if (opened == OPENED)
            return true;
        sg_close_file(map);
        if (opened == REFUSED || !make_file(settings, opened == STALE, problem))
            return false;
    }
    return refuse(problem, settings, "keeps disappearing");
}

void sg_close_file(struct sg_map *map) {
    if (map->base)
        munmap(map->base, map->header->file_bytes);
    if (map->descriptor >= 0)
        close(map->descriptor);
    *map = (struct sg_map){.descriptor = -1};
}
