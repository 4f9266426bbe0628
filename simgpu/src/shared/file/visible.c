/* NVIDIA_VISIBLE_DEVICES is heeded as the container runtime would (there is none in front of this library), then
 * CUDA_VISIBLE_DEVICES as the driver does: a list of indices or UUID prefixes that ends at the first invalid entry.
 * With SIMGPU_NODES a real runtime is in front: the device nodes in that folder decide, as for NVIDIA's driver.
 * A device that is named MIG-… there is an instance: the only one of its card, and all of it. */
#define _GNU_SOURCE
#include "visible.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct choice {
    uint32_t count, device[SG_DEVICES];
};

void sg_format_uuid(const uint8_t uuid[16], char text[48]) {
    int at = snprintf(text, 48, "GPU-");
    for (int i = 0; i < 16; i++)
        at += snprintf(text + at, (size_t)(48 - at), i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
}

static int find_device(const struct sg_header *header, const struct choice *among, const char *text) {
    char *end, uuid[48];
    if (strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0) {
        for (uint32_t i = 0; i < among->count; i++) {
            sg_format_uuid(header->card[among->device[i]].uuid, uuid);
            if (strlen(text) > 4 && strncmp(uuid + 4, text + 4, strlen(text) - 4) == 0)
                return (int)i;
        }
        return -1;
    }
    long index = strtol(text, &end, 10);
    return end != text && *end == '\0' && index >= 0 && index < (long)among->count ? (int)index : -1;
}

static bool has(const struct choice *choice, uint32_t device) {
    for (uint32_t i = 0; i < choice->count; i++)
        if (choice->device[i] == device)
            return true;
    return false;
}

static struct choice narrow(const struct sg_header *header, struct choice among, const char *list, bool runtime) {
    struct choice chosen = {0};
    char copy[1024], *rest = NULL;
    if (runtime && (strcmp(list, "all") == 0 || !*list))
        return among;
    snprintf(copy, sizeof copy, "%s", list);
    for (char *part = strtok_r(copy, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        int found = find_device(header, &among, part);
        if (found < 0 || has(&chosen, among.device[found]))
            break;
        chosen.device[chosen.count++] = among.device[found];
    }
    return chosen;
}

/* Whether the process may open the node.  No driver is behind it: ENXIO or ENODEV says that it was allowed to ask. */
static bool may_open(const char *folder, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int node = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (node < 0)
        return errno == ENXIO || errno == ENODEV;
    close(node);
    return true;
}

/* NVIDIA's driver shows a card where both its own node and the control node can be opened. */
static struct choice find_by_nodes(const struct choice *among, const char *folder) {
    struct choice chosen = {0};
    char name[32];
    for (uint32_t i = 0; may_open(folder, "nvidiactl") && i < among->count; i++) {
        snprintf(name, sizeof name, "nvidia%u", among->device[i]);
        if (may_open(folder, name))
            chosen.device[chosen.count++] = among->device[i];
    }
    return chosen;
}

uint32_t sg_visible_devices(const struct sg_header *header, uint32_t device[SG_DEVICES], bool heed_cuda) {
    struct choice choice = {.count = header->devices};
    for (uint32_t i = 0; i < header->devices; i++)
        choice.device[i] = i;
    const char *runtime = getenv("NVIDIA_VISIBLE_DEVICES"), *cuda = getenv("CUDA_VISIBLE_DEVICES");
    const char *nodes = getenv("SIMGPU_NODES");
    if (nodes && *nodes)
        choice = find_by_nodes(&choice, nodes);
    else if (runtime)
        choice = narrow(header, choice, runtime, true);
    if (cuda && heed_cuda)
        choice = narrow(header, choice, cuda, false);
    memcpy(device, choice.device, sizeof choice.device);
    return choice.count;
}

bool sg_is_instance(const uint8_t uuid[16]) {
    const char *const lists[] = {getenv("NVIDIA_VISIBLE_DEVICES"), getenv("CUDA_VISIBLE_DEVICES")};
    char text[48];
    sg_format_uuid(uuid, text);
    memcpy(text, "MIG", 3);
    return (lists[0] && strstr(lists[0], text)) || (lists[1] && strstr(lists[1], text));
}
