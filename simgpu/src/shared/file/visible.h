/* Which of the machine's devices a process sees. */
#ifndef SIMGPU_VISIBLE_H
#define SIMGPU_VISIBLE_H

#include "layout.h"

/* Fills `device` with indices into the header's cards, in the order the process sees them; returns how many. NVML does
 * not heed CUDA_VISIBLE_DEVICES, so it passes false. */
uint32_t sg_visible_devices(const struct sg_header *header, uint32_t device[SG_DEVICES], bool heed_cuda);

/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
void sg_format_uuid(const uint8_t uuid[16], char text[48]);

/* Whether the visible devices name it as a MIG instance. */
bool sg_is_instance(const uint8_t uuid[16]);

#endif
