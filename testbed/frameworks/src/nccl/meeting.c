/* Kernels that end in pairs: the software GPU ends a kernel `…_x2` when two of that name have begun, on any device. */
#include <stdio.h>

#include "nccl/nccl.h"

#define LATENCY_NS 20000u
#define BYTES_PER_NS 10u /* 10 GB/s: PCIe between two cards */

void meeting_name(struct meeting *meeting, const char *id, const char *kind, int partners) {
    if (partners > 1)
        snprintf(meeting->name, sizeof meeting->name, "nccl_%s_%s_param_x%d", id, kind, partners);
    else
        snprintf(meeting->name, sizeof meeting->name, "nccl_%s_%s_param", id, kind);
    meeting->kernel.name = meeting->name;
}

int meeting_launch(struct meeting *meeting, CUstream stream, uint64_t bytes) {
    CUresult result = kernel_launch(&meeting->kernel, stream, LATENCY_NS + bytes / BYTES_PER_NS, 24, 1);
    return result == CUDA_SUCCESS ? SUCCESS : UNHANDLED_CUDA_ERROR;
}
