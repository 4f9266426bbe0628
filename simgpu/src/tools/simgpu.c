/* `simgpu`: shows the devices and makes faults on them, for whoever shares the same SIMGPU_FILE. */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/devices/paging.h"
#include "shared/file/slots.h"
#include "shared/file/visible.h"
#include "shared/process/changes.h"
#include "shared/process/client.h"
#include "shared/process/transaction.h"

#define XID_EVENT 8u
#define MIG_EVENT 0x100u
#define UNAVAILABLE_EVENT 0x4000u
#define RECOVERY_EVENT 0x8000u
#define XID_FELL_OFF_THE_BUS 79u

static void usage(FILE *into) {
    fputs("simgpu: the software GPU's devices and their faults (file: SIMGPU_FILE)\n"
          "  simgpu devices               index, UUID, model, memory, one a line; makes the file if there is none\n"
          "  simgpu status                who runs, how much is used, which faults are on\n"
          "  simgpu check                 is the file whole? exit code 1 and a sentence if not\n"
          "  simgpu xid DEVICE CODE       an XID event (48, 79 ...)\n"
          "  simgpu lost DEVICE           the device falls off the bus: XID 79, every call on it fails\n"
          "  simgpu recovered DEVICE      it is back, not hot, not busy by force\n"
          "  simgpu hot DEVICE [DEGREES]  its temperature (default 95)\n"
          "  simgpu busy DEVICE [PERCENT] its utilisation as NVML says it (default 100)\n"
          "  simgpu mig DEVICE on|off     its MIG mode as NVML says it\n"
          "DEVICE is an index or a UUID.\n",
          into);
}

static int find_device(const char *text) {
    char uuid[48], *end;
    const struct sg_header *header = sg_client.map.header;
    for (uint32_t i = 0; i < header->devices; i++) {
        sg_format_uuid(header->card[i].uuid, uuid);
        if (strcmp(uuid, text) == 0)
            return (int)i;
    }
    long index = strtol(text, &end, 10);
    return end != text && *end == '\0' && index >= 0 && index < (long)header->devices ? (int)index : -1;
}

/* Inside a transaction only because that is where one process at a time writes. */
static void add_event(uint32_t device, uint32_t type, uint64_t data) {
    struct sg_control *control = sg_client.map.control;
    struct sg_state state = sg_begin();
    uint64_t sequence = atomic_load(&control->events);
    control->event[sequence % SG_EVENTS] = (struct sg_fault_event){sequence, data, state.core->now_ns, device, type};
    atomic_store(&control->events, sequence + 1);
    sg_commit(&state);
    atomic_fetch_add(&control->event_word, 1);
    syscall(SYS_futex, &control->event_word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool number(const char *text, unsigned *value, unsigned most) {
    char *end;
    unsigned long parsed = strtoul(text, &end, 10);
    *value = (unsigned)parsed;
    return end != text && *end == '\0' && parsed <= most;
}

static bool make_xid(uint32_t device, const char *argument) {
    unsigned code;
    if (!argument || !number(argument, &code, 999))
        return false;
    atomic_store(&sg_client.map.control->fault[device].xid, code);
    add_event(device, XID_EVENT, code);
    return true;
}

static bool make_lost(uint32_t device, const char *argument) {
    (void)argument;
    atomic_store(&sg_client.map.control->fault[device].lost, 1);
    add_event(device, XID_EVENT, XID_FELL_OFF_THE_BUS);
    add_event(device, UNAVAILABLE_EVENT, 0);
    sg_tell_change();
    return true;
}

static bool make_recovered(uint32_t device, const char *argument) {
    (void)argument;
    atomic_store(&sg_client.map.control->fault[device].lost, 0);
    atomic_store(&sg_client.map.control->fault[device].temperature, -1);
    atomic_store(&sg_client.map.control->fault[device].busy_percent, -1);
    atomic_store(&sg_client.map.control->fault[device].xid, 0);
    add_event(device, RECOVERY_EVENT, 0);
    sg_tell_change();
    return true;
}

static bool make_hot(uint32_t device, const char *argument) {
    unsigned degrees = 95;
    if (argument && !number(argument, &degrees, 150))
        return false;
    atomic_store(&sg_client.map.control->fault[device].temperature, (int)degrees);
    return true;
}

static bool make_busy(uint32_t device, const char *argument) {
    unsigned percent = 100;
    if (argument && !number(argument, &percent, 100))
        return false;
    atomic_store(&sg_client.map.control->fault[device].busy_percent, (int)percent);
    return true;
}

static bool make_mig(uint32_t device, const char *argument) {
    bool on = argument && strcmp(argument, "on") == 0;
    if (!on && !(argument && strcmp(argument, "off") == 0))
        return false;
    atomic_store(&sg_client.map.control->fault[device].mig, on);
    add_event(device, MIG_EVENT, on);
    return true;
}

static int list_devices(void) {
    char uuid[48];
    for (uint32_t i = 0; i < sg_client.map.header->devices; i++) {
        const struct sg_device_card *card = &sg_client.map.header->card[i];
        sg_format_uuid(card->uuid, uuid);
        printf("%u %s %s %llu MiB\n", i, uuid, card->name, (unsigned long long)card->memory_bytes >> 20);
    }
    return 0;
}

static void show_context(const struct sg_state *state, uint32_t index) {
    const struct sg_context *context = &state->context[index];
    const struct sg_slot *slot = &state->map->slots[sg_owner_slot(context->owner)];
    printf("  %s (pid %u): plain %.0f MiB, managed %.0f MiB of which %.0f MiB here, busy %.3f s\n", slot->label,
           slot->pid, (double)context->plain_bytes / 1048576, context->managed_bytes / 1048576,
           sg_resident(context) / 1048576, (double)context->busy_ns / 1e9);
}

static int show_status(void) {
    struct sg_state state = sg_begin();
    for (uint32_t device = 0; device < state.map->header->devices; device++) {
        printf("device %u: busy %.3f s, free %.0f MiB%s\n", device, (double)state.core->device[device].busy_ns / 1e9,
               sg_free_bytes(&state, device) / 1048576,
               atomic_load(&state.map->control->fault[device].lost) ? ", LOST" : "");
        for (int i = sg_next_used(state.core, -1); i >= 0; i = sg_next_used(state.core, i))
            if (state.context[i].device == device)
                show_context(&state, (uint32_t)i);
    }
    sg_commit(&state);
    return 0;
}

static const char *what_is_wrong(const struct sg_state *state, uint32_t index) {
    const struct sg_context *context = &state->context[index];
    double resident = sg_resident(context);
    if (context->device >= state->map->header->devices || context->channels > SG_CHANNELS || !context->serial)
        return "a context points outside";
    if (resident < -1 || resident > context->managed_bytes + 1)
        return "a context has more on the device than it allocated";
    for (uint32_t channel = 0; channel < context->channels; channel++) {
        uint64_t tail = atomic_load(sg_tail_at(state->map, index, channel));
        if (tail < context->channel[channel].head || tail - context->channel[channel].head > SG_RING)
            return "a queue is longer than its ring";
    }
    return NULL;
}

static int check(void) {
    struct sg_state state = sg_begin();
    const char *wrong = NULL;
    for (int i = sg_next_used(state.core, -1); i >= 0 && !wrong; i = sg_next_used(state.core, i))
        wrong = what_is_wrong(&state, (uint32_t)i);
    for (uint32_t device = 0; device < state.map->header->devices && !wrong; device++)
        if (sg_free_bytes(&state, device) < -1)
            wrong = "a device holds more than its memory";
    sg_commit(&state);
    if (wrong)
        fprintf(stderr, "simgpu: %s is damaged: %s; remove it\n", sg_client.settings.file, wrong);
    return wrong ? 1 : 0;
}

struct fault {
    const char *name;
    bool (*make)(uint32_t device, const char *argument);
};

static const struct fault FAULTS[] = {
    {"xid", make_xid},   {"lost", make_lost}, {"recovered", make_recovered},
    {"hot", make_hot},   {"busy", make_busy}, {"mig", make_mig},
};

static int make_fault(int argc, char **argv) {
    for (size_t i = 0; argc >= 3 && i < sizeof FAULTS / sizeof *FAULTS; i++) {
        if (strcmp(argv[1], FAULTS[i].name) != 0)
            continue;
        int device = find_device(argv[2]);
        if (device < 0) {
            fprintf(stderr, "simgpu: there is no device %s; `simgpu devices` lists them\n", argv[2]);
            return 2;
        }
        if (FAULTS[i].make((uint32_t)device, argc > 3 ? argv[3] : NULL))
            return 0;
        break;
    }
    usage(stderr);
    return 2;
}

int main(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "--help") == 0) {
        usage(argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    if (!sg_attach())
        return 1;
    if (strcmp(argv[1], "devices") == 0)
        return list_devices();
    if (strcmp(argv[1], "status") == 0)
        return show_status();
    if (strcmp(argv[1], "check") == 0)
        return check();
    return make_fault(argc, argv);
}
