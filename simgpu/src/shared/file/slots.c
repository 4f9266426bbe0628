/* Tells who is alive by open-file-description locks on the slots' bytes: a process id means nothing between containers. */
#define _GNU_SOURCE
#include "slots.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define GENERATION_SHIFT 10
#define GENERATION_MASK 0x1FFFFFu

static struct flock slot_byte(off_t base, uint32_t slot) {
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = base + slot, .l_len = 1};
}

static uint32_t make_owner(uint32_t slot, uint32_t generation) {
    return (generation & GENERATION_MASK) << GENERATION_SHIFT | (slot + 1);
}

bool sg_is_alive(const struct sg_map *map, uint32_t owner) {
    uint32_t slot = sg_owner_slot(owner);
    if (slot >= SG_SLOTS || make_owner(slot, atomic_load(&map->slots[slot].generation)) != owner)
        return false;
    if (owner == map->owner)
        return true;
    struct flock lock = slot_byte(SG_LIVE_BYTE, slot);
    return fcntl(map->descriptor, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

/* A process in a container does not know its id outside; the kernel does, and translates a lock's holder (Linux 4.14). */
uint32_t sg_pid_here(const struct sg_map *map, uint32_t owner) {
    uint32_t slot = sg_owner_slot(owner);
    struct flock lock = slot_byte(SG_PID_BYTE, slot);
    if (fcntl(map->descriptor, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return map->slots[slot].pid; /* it has closed the file once more, by itself: that gave the lock up */
    return lock.l_pid > 0 ? (uint32_t)lock.l_pid : 0;
}

bool sg_take_slot(struct sg_map *map, const char label[SG_LABEL]) {
    for (uint32_t slot = 0; slot < SG_SLOTS; slot++) {
        struct flock lock = slot_byte(SG_LIVE_BYTE, slot), pid = slot_byte(SG_PID_BYTE, slot);
        if (fcntl(map->descriptor, F_OFD_SETLK, &lock) != 0)
            continue;
        struct sg_slot *mine = &map->slots[slot];
        uint32_t generation = atomic_fetch_add(&mine->generation, 1) + 1;
        mine->pid = (uint32_t)getpid();
        fcntl(map->descriptor, F_SETLK, &pid); /* sg_pid_here does without, too */
        memcpy(mine->label, label, sizeof mine->label);
        map->owner = make_owner(slot, generation);
        return true;
    }
    return false;
}
