/* Slots: the places of the processes in the shared file, and which of the processes are alive.
 *
 * The rule: an owner is a slot and its generation, as in the lock word and in contexts.
 */
#ifndef SIMGPU_SLOTS_H
#define SIMGPU_SLOTS_H

#include "file.h"

static inline uint32_t sg_owner_slot(uint32_t owner) {
    return (owner & 0x3FFu) - 1;
}

/* Takes a free slot for this process and writes its owner into the map; false when all are taken. */
bool sg_take_slot(struct sg_map *map, const char label[SG_LABEL]);
bool sg_is_alive(const struct sg_map *map, uint32_t owner);
/* The id of an owner in the process namespace of the caller; 0 if that namespace does not see it. */
uint32_t sg_pid_here(const struct sg_map *map, uint32_t owner);

#endif
