/* Opening the shared file.
 *
 * The rule: the file is created whole or not at all, and it is checked before it is used. */
#ifndef SIMGPU_FILE_H
#define SIMGPU_FILE_H

#include "config.h"

struct sg_map {
    int descriptor;
    uint32_t owner; /* this process: its slot and generation; 0 before it has a slot */
    char *base;
    const struct sg_header *header;
    struct sg_control *control;
    struct sg_slot *slots;
    struct sg_cast *cast;
};

bool sg_open_file(struct sg_map *map, const struct sg_settings *settings, char problem[256]);
void sg_close_file(struct sg_map *map);

static inline struct sg_core *sg_core_at(const struct sg_map *map, uint32_t which) {
    return (struct sg_core *)(void *)(map->base + map->header->at_cores + which * map->header->core_bytes);
}

static inline struct sg_context *sg_contexts_at(const struct sg_map *map, uint32_t which) {
    return (struct sg_context *)(void *)(map->base + map->header->at_contexts + which * map->header->context_bytes);
}

static inline _Atomic uint64_t *sg_tail_at(const struct sg_map *map, uint32_t context, uint32_t channel) {
    return (_Atomic uint64_t *)(void *)(map->base + map->header->at_tails) + context * SG_CHANNELS + channel;
}

static inline struct sg_op *sg_ring_at(const struct sg_map *map, uint32_t context, uint32_t channel) {
    return (struct sg_op *)(void *)(map->base + map->header->at_rings) +
           ((size_t)context * SG_CHANNELS + channel) * SG_RING;
}

static inline struct sg_interval *sg_intervals_at(const struct sg_map *map, uint32_t device) {
    return (struct sg_interval *)(void *)(map->base + map->header->at_intervals) +
           device * map->header->physics.record_entries;
}

static inline struct sg_residency *sg_residency_at(const struct sg_map *map, uint32_t device) {
    return (struct sg_residency *)(void *)(map->base + map->header->at_residency) +
           device * map->header->physics.record_entries;
}

uint64_t sg_monotonic_ns(void);

#endif
