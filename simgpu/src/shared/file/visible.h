/* The visible devices: the devices of the machine that a process sees. */
#ifndef SIMGPU_VISIBLE_H
#define SIMGPU_VISIBLE_H

#include "layout.h"

/* Fills `device` with indices into the cards of the header, in the order in which the process sees them; returns how many.
 * NVML ignores CUDA_VISIBLE_DEVICES, so it passes false. */
uint32_t sg_visible_devices(const struct sg_header *header, uint32_t device[SG_DEVICES], bool heed_cuda);

/* Writes "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx". */
void sg_format_uuid(const uint8_t uuid[16], char text[48]);

/* Whether the setting of visible devices names it as a MIG instance. */
bool sg_is_instance(const uint8_t uuid[16]);

#endif
