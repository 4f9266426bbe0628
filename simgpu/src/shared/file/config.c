/* Reads the environment into settings: tables of models and of variables, no state kept. */
#define _GNU_SOURCE
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct model {
    const char *name, *full_name;
    uint32_t major, minor, multiprocessors, clock_khz, memory_clock_khz, bus_bits, device_id, power_mw;
};

static const struct model MODELS[] = {
    {"T4", "Tesla T4", 7, 5, 40, 1590000, 5001000, 256, 0x1EB810DEu, 70000},
    {"P100", "Tesla P100-PCIE-16GB", 6, 0, 56, 1328500, 715000, 4096, 0x15F810DEu, 250000},
    {"V100", "Tesla V100-SXM2-16GB", 7, 0, 80, 1530000, 877000, 4096, 0x1DB110DEu, 300000},
    {"A100", "NVIDIA A100-SXM4-40GB", 8, 0, 108, 1410000, 1215000, 5120, 0x20B010DEu, 400000},
    {"L4", "NVIDIA L4", 8, 9, 58, 2040000, 6251000, 192, 0x27B810DEu, 72000},
    {"H100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 1980000, 2619000, 5120, 0x233010DEu, 700000},
};

struct unit {
    const char *suffix;
    uint64_t factor;
};

static const struct unit DURATIONS[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {"", 1}};
static const struct unit SIZES[] = {
    {"KB", 1ull << 10}, {"MB", 1ull << 20}, {"GB", 1ull << 30}, {"TB", 1ull << 40}, {"K", 1ull << 10},
    {"M", 1ull << 20},  {"G", 1ull << 30},  {"T", 1ull << 40},  {"B", 1},           {"", 1},
};

static bool parse_with_unit(const char *text, const struct unit *units, size_t count, uint64_t *value) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || number < 0 || number > 1e18)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(end, units[i].suffix) == 0) {
            *value = (uint64_t)(number * (double)units[i].factor + 0.5);
            return true;
        }
    }
    return false;
}

bool sg_parse_duration(const char *text, uint64_t *nanoseconds) {
    return parse_with_unit(text, DURATIONS, sizeof DURATIONS / sizeof *DURATIONS, nanoseconds);
}

bool sg_parse_bytes(const char *text, uint64_t *bytes) {
    return parse_with_unit(text, SIZES, sizeof SIZES / sizeof *SIZES, bytes);
}

static bool parse_count(const char *text, uint64_t *value) {
    char *end;
    *value = strtoull(text, &end, 10);
    return end != text && *end == '\0';
}

static bool parse_factor(const char *text, uint64_t *value) {
    char *end;
    double factor = strtod(text, &end);
    memcpy(value, &factor, sizeof *value);
    return end != text && *end == '\0' && factor > 0 && factor <= 1e6;
}

static bool parse_misuse(const char *text, uint64_t *value) {
    *value = strcmp(text, "abort") == 0;
    return *value || strcmp(text, "refuse") == 0;
}

#define HUNDREDTHS (1ull << 63) /* a part in hundredths of a percent; otherwise bytes */

/* "25%" of each allocation, or at most "1GB" of it. */
static bool parse_touched(const char *text, uint64_t *value) {
    char *end;
    double percent = strtod(text, &end);
    if (end == text || strcmp(end, "%") != 0)
        return sg_parse_bytes(text, value);
    *value = HUNDREDTHS | (uint64_t)(percent * 100 + 0.5);
    return percent >= 0 && percent <= 100;
}

uint64_t sg_touched_part(const struct sg_settings *settings, uint64_t bytes) {
    uint64_t part = settings->touched & ~HUNDREDTHS;
    if (settings->touched & HUNDREDTHS)
        return (uint64_t)((double)bytes * (double)part / 10000);
    return part < bytes ? part : bytes;
}

static bool parse_switch(const char *text, uint64_t *value) {
    *value = strcmp(text, "on") == 0;
    return *value || strcmp(text, "off") == 0;
}

/* Every physics variable: what it is called, how it is read, where it goes. */
struct variable {
    const char *name;
    bool (*parse)(const char *, uint64_t *);
    size_t offset, size;
    const char *example;
};

#define FIELD(member) offsetof(struct sg_settings, member), sizeof(((struct sg_settings *)0)->member)
static const struct variable VARIABLES[] = {
    {"SIMGPU_SLICE", sg_parse_duration, FIELD(physics.slice_ns), "2ms"},
    {"SIMGPU_SWITCH", sg_parse_duration, FIELD(physics.switch_ns), "50us"},
    {"SIMGPU_OVERHEAD", sg_parse_bytes, FIELD(physics.overhead_bytes), "300MB"},
    {"SIMGPU_PAGE_RATE", sg_parse_bytes, FIELD(physics.page_bytes_per_s), "5.7GB"},
    {"SIMGPU_COPY_RATE", sg_parse_bytes, FIELD(physics.copy_bytes_per_s), "12GB"},
    {"SIMGPU_PASS", sg_parse_duration, FIELD(physics.pass_ns), "350ms"},
    {"SIMGPU_SPEED", parse_factor, FIELD(physics.speed), "1"},
    {"SIMGPU_OVERLAP", parse_count, FIELD(physics.overlap), "1"},
    {"SIMGPU_RECORD_ENTRIES", parse_count, FIELD(physics.record_entries), "262144"},
    {"SIMGPU_STRETCH_BEFORE", sg_parse_duration, FIELD(stretch_before_ns), "50us"},
    {"SIMGPU_STRETCH_AFTER", sg_parse_duration, FIELD(stretch_after_ns), "50us"},
    {"SIMGPU_LAUNCH_COST", sg_parse_duration, FIELD(launch_cost_ns), "3us"},
    {"SIMGPU_EVENT_COST", sg_parse_duration, FIELD(event_cost_ns), "1500ns"},
    {"SIMGPU_QUERY_COST", sg_parse_duration, FIELD(query_cost_ns), "500ns"},
    {"SIMGPU_MISUSE", parse_misuse, FIELD(misuse_aborts), "abort"},
    {"SIMGPU_TOUCHED", parse_touched, FIELD(touched), "25%"},
    {"SIMGPU_HOST_PAGES", parse_switch, FIELD(charges_host_pages), "on"},
    {"SIMGPU_KERNEL_TIME", sg_parse_duration, FIELD(kernel_ns), "5ms"},
    {"SIMGPU_DATA_BYTES", sg_parse_bytes, FIELD(data_bytes), "64MB"},
    {"SIMGPU_DRIVER_VERSION", parse_count, FIELD(driver_version), "13040"},
};

static bool read_variables(struct sg_settings *settings, char problem[256]) {
    for (uint32_t i = 0; i < sizeof VARIABLES / sizeof *VARIABLES; i++) {
        const struct variable *variable = &VARIABLES[i];
        const char *text = getenv(variable->name);
        uint64_t value;
        if (!text || !*text)
            continue;
        if (!variable->parse(text, &value)) {
            snprintf(problem, 256, "%s=%.60s cannot be read; write it like %s=%s", variable->name, text, variable->name,
                     variable->example);
            return false;
        }
        memcpy((char *)settings + variable->offset, &value, variable->size);
        settings->physics_given |= 1u << i;
    }
    return true;
}

static void hash_into(uint64_t *hash, const void *bytes, size_t length) {
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < length; i++)
        *hash = (*hash ^ byte[i]) * 0x100000001B3ull;
}

/* A UUID that is the same on every start: from the seed (a node's name, say), the model and the ordinal. */
static void make_uuid(uint8_t uuid[16], const char *model, uint32_t ordinal) {
    const char *seed = getenv("SIMGPU_UUID_SEED");
    for (uint32_t half = 0; half < 2; half++) {
        uint64_t hash = 0xCBF29CE484222325ull + half;
        if (seed)
            hash_into(&hash, seed, strlen(seed));
        hash_into(&hash, model, strlen(model));
        hash_into(&hash, &ordinal, sizeof ordinal);
        hash ^= hash >> 29;
        hash *= 0xBF58476D1CE4E5B9ull;
        hash ^= hash >> 32;
        memcpy(uuid + 8 * half, &hash, 8);
    }
    uuid[6] = (uint8_t)((uuid[6] & 0x0F) | 0x40);
    uuid[8] = (uint8_t)((uuid[8] & 0x3F) | 0x80);
}

static const struct model *find_model(const char *name) {
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        if (strcmp(MODELS[i].name, name) == 0)
            return &MODELS[i];
    return NULL;
}

static void fill_card(struct sg_device_card *card, const struct model *model, uint64_t memory, uint32_t ordinal) {
    memset(card, 0, sizeof *card);
    snprintf(card->name, sizeof card->name, "%s", model->full_name);
    make_uuid(card->uuid, model->name, ordinal);
    card->memory_bytes = memory;
    card->capability_major = model->major, card->capability_minor = model->minor;
    card->multiprocessors = model->multiprocessors, card->clock_khz = model->clock_khz;
    card->memory_clock_khz = model->memory_clock_khz, card->bus_bits = model->bus_bits;
    card->pci_bus = 0x3B + 2 * ordinal, card->pci_device_id = model->device_id;
    card->numa_node = (int32_t)(ordinal & 1u);
    card->power_limit_mw = model->power_mw, card->idle_temperature = 33 + ordinal;
}

/* One "2xA100-40GB". */
static bool add_devices(struct sg_settings *settings, const char *text) {
    unsigned count;
    char name[16], memory_text[16];
    uint64_t memory;
    int used = 0;
    if (sscanf(text, "%ux%15[A-Za-z0-9]-%15[0-9A-Za-z.]%n", &count, name, memory_text, &used) != 3 || text[used])
        return false;
    const struct model *model = find_model(name);
    if (!model || count == 0 || settings->devices + count > SG_DEVICES || !sg_parse_bytes(memory_text, &memory) ||
        memory < (1u << 20))
        return false;
    for (; count; count--, settings->devices++)
        fill_card(&settings->card[settings->devices], model, memory, settings->devices);
    return true;
}

static bool read_devices(struct sg_settings *settings, char problem[256]) {
    const char *text = getenv("SIMGPU_DEVICES");
    settings->devices_given = text && *text;
    char copy[512], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", settings->devices_given ? text : "1xT4-16GB");
    for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        if (!add_devices(settings, part)) {
            snprintf(problem, 256,
                     "SIMGPU_DEVICES has the entry '%.40s'; write <count>x<model>-<memory>, models T4 P100 V100 A100 L4 "
                     "H100, at most %d devices, for example 2xA100-40GB,1xT4-16GB",
                     part, SG_DEVICES);
            return false;
        }
    }
    return true;
}

static void set_defaults(struct sg_settings *settings) {
    *settings = (struct sg_settings){
        .physics = {.slice_ns = 2000000,
                    .switch_ns = 50000,
                    .overhead_bytes = 300ull << 20,
                    .page_bytes_per_s = 5700000000ull,
                    .copy_bytes_per_s = 12000000000ull,
                    .pass_ns = 350000000,
                    .speed = 1.0,
                    .overlap = 1,
                    .record_entries = 1u << 18},
        .data_bytes = 64ull << 20,
        .touched = HUNDREDTHS - 1,
        .driver_version = 13040,
    };
}

bool sg_read_settings(struct sg_settings *settings, char problem[256]) {
    set_defaults(settings);
    const char *file = getenv("SIMGPU_FILE"), *label = getenv("SIMGPU_LABEL");
    if (file && *file)
        snprintf(settings->file, sizeof settings->file, "%s", file);
    else
        snprintf(settings->file, sizeof settings->file, "/dev/shm/simgpu.%u", (unsigned)getuid());
    if (label && *label)
        snprintf(settings->label, sizeof settings->label, "%s", label);
    else
        snprintf(settings->label, sizeof settings->label, "%d", (int)getpid());
    if (!read_devices(settings, problem) || !read_variables(settings, problem))
        return false;
    if (settings->physics.slice_ns == 0 || settings->physics.overlap == 0 || settings->physics.overlap > SG_CHANNELS ||
        settings->physics.record_entries < 16 || settings->physics.page_bytes_per_s == 0 ||
        settings->physics.copy_bytes_per_s == 0 || settings->physics.pass_ns == 0) {
        snprintf(problem, 256, "a SIMGPU_ setting is 0 or too large; slice, pass, rates, overlap (1-%d) and record "
                               "entries (16 or more) must be positive", SG_CHANNELS);
        return false;
    }
    return true;
}
