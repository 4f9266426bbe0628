/* The settings in the environment. They are read once.
 *
 * The rule: a value that cannot be read is refused with a sentence. */
#ifndef SIMGPU_CONFIG_H
#define SIMGPU_CONFIG_H

#include "layout.h"

struct sg_settings {
    char file[512];
    char label[SG_LABEL];
    bool devices_given;
    uint32_t devices;
    struct sg_device_card card[SG_DEVICES];
    struct sg_physics physics;
    uint32_t physics_given; /* bit i: the i-th physics variable was in the environment */
    uint64_t stretch_before_ns, stretch_after_ns;
    uint64_t launch_cost_ns, event_cost_ns, query_cost_ns; /* of the host, in real time */
    uint32_t misuse_aborts;
    uint32_t charges_host_pages; /* paged-out bytes take this process' own memory */
    uint64_t touched;            /* what kernels touch of a managed allocation: see sg_touched_part */
    uint64_t kernel_ns;
    uint64_t data_bytes;
    int driver_version;
};

/* False: `problem` has one sentence that says what is wrong, and one that says how to fix it. */
bool sg_read_settings(struct sg_settings *settings, char problem[256]);

/* How many bytes of a managed allocation kernels touch: all, unless SIMGPU_TOUCHED says less. */
uint64_t sg_touched_part(const struct sg_settings *settings, uint64_t bytes);

/* Reads "5ms", "20us", "2s", "100ns" or a bare number of nanoseconds; false for other text. */
bool sg_parse_duration(const char *text, uint64_t *nanoseconds);
/* Reads "16GB" (2^30), "300MB" (2^20), "4K", or bytes. */
bool sg_parse_bytes(const char *text, uint64_t *bytes);

#endif
