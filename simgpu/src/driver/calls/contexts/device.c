/* Devices: names, UUIDs, attributes, limits. Read from the file's header, which never changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/base/init.h"
#include "shared/file/card_limits.h"
#include "shared/file/visible.h"
#include "shared/process/client.h"

static const struct sg_device_card *card_of(CUdevice device) {
    return &sg_client.map.header->card[sg_visible[device]];
}

static CUresult check(CUdevice device, const void *out) {
    if (!atomic_load(&sg_ready))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    return device >= 0 && (uint32_t)device < sg_visible_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

#define CHECK(device, out)                                                                                             \
    do {                                                                                                               \
        CUresult checked = check(device, out);                                                                         \
        if (checked != CUDA_SUCCESS)                                                                                   \
            return checked;                                                                                            \
    } while (0)

CUresult cuDeviceGetCount(int *count) {
    NEED_INIT();
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (int)sg_visible_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    CHECK(ordinal, device);
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
    CHECK(device, name);
    if (length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "%s", card_of(device)->name);
    return CUDA_SUCCESS;
}

/* Of a MIG instance: the card it is cut from. */
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    CHECK(device, uuid);
    memcpy(uuid->bytes, card_of(device)->uuid, 16);
    if (sg_is_instance(card_of(device)->uuid))
        uuid->bytes[0] = (char)~uuid->bytes[0];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    CHECK(device, uuid);
    memcpy(uuid->bytes, card_of(device)->uuid, 16);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    CHECK(device, bytes);
    *bytes = card_of(device)->memory_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(unsigned *bytes, CUdevice device) {
    CHECK(device, bytes);
    uint64_t all = card_of(device)->memory_bytes;
    *bytes = all > 0xFFFFFFFFu ? 0xFFFFFFFFu : (unsigned)all;
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    CHECK(device, major);
    if (!minor)
        return CUDA_ERROR_INVALID_VALUE;
    *major = (int)card_of(device)->capability_major;
    *minor = (int)card_of(device)->capability_minor;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device) {
    CHECK(device, text);
    if (length < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(text, (size_t)length, "0000:%02X:00.0", card_of(device)->pci_bus);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text) {
    NEED_INIT();
    unsigned domain, bus;
    if (!device || !text || sscanf(text, "%x:%x:00.0", &domain, &bus) != 2)
        return CUDA_ERROR_INVALID_VALUE;
    for (CUdevice i = 0; i < (CUdevice)sg_visible_count; i++) {
        if (card_of(i)->pci_bus == bus) {
            *device = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetLuid(char *luid, unsigned *mask, CUdevice device) {
    (void)mask;
    CHECK(device, luid);
    return CUDA_ERROR_NOT_SUPPORTED; /* Windows only */
}

/* Attributes that are the same on every card; those that differ are read from the card below. */
struct attribute {
    CUdevice_attribute number;
    int value;
};

static const struct attribute SAME[] = {
    {1, 1024},        /* MAX_THREADS_PER_BLOCK */
    {2, 1024},        /* MAX_BLOCK_DIM_X */
    {3, 1024},        /* MAX_BLOCK_DIM_Y */
    {4, 64},          /* MAX_BLOCK_DIM_Z */
    {5, 2147483647},  /* MAX_GRID_DIM_X */
    {6, 65535},       /* MAX_GRID_DIM_Y */
    {7, 65535},       /* MAX_GRID_DIM_Z */
    {8, 49152},       /* MAX_SHARED_MEMORY_PER_BLOCK */
    {9, 65536},       /* TOTAL_CONSTANT_MEMORY */
    {10, 32},         /* WARP_SIZE */
    {11, 2147483647}, /* MAX_PITCH */
    {12, 65536},      /* MAX_REGISTERS_PER_BLOCK */
    {14, 512},        /* TEXTURE_ALIGNMENT */
    {15, 1},          /* GPU_OVERLAP */
    {17, 0},          /* KERNEL_EXEC_TIMEOUT */
    {18, 0},          /* INTEGRATED */
    {19, 1},          /* CAN_MAP_HOST_MEMORY */
    {20, 0},          /* COMPUTE_MODE */
    {21, 131072},     /* MAXIMUM_TEXTURE1D_WIDTH */
    {22, 131072},     /* MAXIMUM_TEXTURE2D_WIDTH */
    {23, 65536},      /* MAXIMUM_TEXTURE2D_HEIGHT */
    {24, 16384},      /* MAXIMUM_TEXTURE3D_WIDTH */
    {25, 16384},      /* MAXIMUM_TEXTURE3D_HEIGHT */
    {26, 16384},      /* MAXIMUM_TEXTURE3D_DEPTH */
    {30, 512},        /* SURFACE_ALIGNMENT */
    {31, 1},          /* CONCURRENT_KERNELS */
    {32, 0},          /* ECC_ENABLED */
    {34, 0},          /* PCI_DEVICE_ID */
    {35, 0},          /* TCC_DRIVER */
    {40, 2},          /* ASYNC_ENGINE_COUNT */
    {41, 1},          /* UNIFIED_ADDRESSING */
    {50, 0},          /* PCI_DOMAIN_ID */
    {51, 32},         /* TEXTURE_PITCH_ALIGNMENT */
    {78, 1},          /* STREAM_PRIORITIES_SUPPORTED */
    {79, 1},          /* GLOBAL_L1_CACHE_SUPPORTED */
    {80, 1},          /* LOCAL_L1_CACHE_SUPPORTED */
    {82, 65536},      /* MAX_REGISTERS_PER_MULTIPROCESSOR */
    {83, 1},          /* MANAGED_MEMORY */
    {84, 0},          /* MULTI_GPU_BOARD */
    {86, 0},          /* HOST_NATIVE_ATOMIC_SUPPORTED */
    {88, 0},          /* PAGEABLE_MEMORY_ACCESS */
    {89, 1},          /* CONCURRENT_MANAGED_ACCESS */
    {90, 1},          /* COMPUTE_PREEMPTION_SUPPORTED */
    {91, 1},          /* CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM */
    {92, 1},          /* CAN_USE_STREAM_MEM_OPS_V1 */
    {93, 1},          /* CAN_USE_64_BIT_STREAM_MEM_OPS_V1 */
    {94, 0},          /* CAN_USE_STREAM_WAIT_VALUE_NOR_V1 */
    {95, 1},          /* COOPERATIVE_LAUNCH */
    {96, 0},          /* COOPERATIVE_MULTI_DEVICE_LAUNCH */
    {98, 0},          /* CAN_FLUSH_REMOTE_WRITES */
    {99, 1},          /* HOST_REGISTER_SUPPORTED */
    {100, 0},         /* PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES */
    {101, 0},         /* DIRECT_MANAGED_MEM_ACCESS_FROM_HOST */
    {102, 1},         /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
    {103, 1},         /* HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
    {107, 0},         /* GENERIC_COMPRESSION_SUPPORTED */
    {108, 0},         /* MAX_PERSISTING_L2_CACHE_SIZE */
    {110, 0},         /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
    {112, 0},         /* SPARSE_CUDA_ARRAY_SUPPORTED */
    {113, 1},         /* READ_ONLY_HOST_REGISTER_SUPPORTED */
    {115, 1},         /* MEMORY_POOLS_SUPPORTED */
    {116, 0},         /* GPU_DIRECT_RDMA_SUPPORTED */
    {119, 1},         /* MEMPOOL_SUPPORTED_HANDLE_TYPES: descriptors */
    {121, 0},         /* DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED */
    {122, 1},         /* CAN_USE_64_BIT_STREAM_MEM_OPS */
    {123, 0},         /* CAN_USE_STREAM_WAIT_VALUE_NOR */
    {124, 0},         /* DMA_BUF_SUPPORTED */
    {125, 1},         /* IPC_EVENT_SUPPORTED */
    {126, 1},         /* MEM_SYNC_DOMAIN_COUNT */
    {127, 0},         /* TENSOR_MAP_ACCESS_SUPPORTED */
    {128, 0},         /* HANDLE_TYPE_FABRIC_SUPPORTED */
    {129, 0},         /* UNIFIED_FUNCTION_POINTERS */
};

static bool read_limit(CUdevice_attribute number, const struct sg_limits *limits, int *value) {
    switch (number) {
    case 38: *value = (int)limits->l2_cache; return true;
    case 39: *value = (int)limits->threads; return true;
    case 81: *value = (int)limits->shared; return true;
    case 87: *value = (int)limits->double_ratio; return true;
    case 97: *value = (int)limits->shared_opt_in; return true;
    case 106: *value = (int)limits->blocks; return true;
    case 111: *value = (int)limits->shared_reserved; return true;
    default: return false;
    }
}

static bool read_card_attribute(CUdevice_attribute number, const struct sg_device_card *card, int *value) {
    switch (number) {
    case 13: *value = (int)card->clock_khz; return true;
    case 16: *value = (int)card->multiprocessors; return true;
    case 33: *value = (int)card->pci_bus; return true;
    case 36: *value = (int)card->memory_clock_khz; return true;
    case 37: *value = (int)card->bus_bits; return true;
    case 75: *value = (int)card->capability_major; return true;
    case 76: *value = (int)card->capability_minor; return true;
    case 85: *value = (int)card->pci_bus; return true; /* MULTI_GPU_BOARD_GROUP_ID: each card its own */
    case 120: *value = card->capability_major >= 9; return true; /* CLUSTER_LAUNCH */
    case 134: *value = card->numa_node; return true; /* HOST_NUMA_ID */
    default: return read_limit(number, sg_limits_of(card), value);
    }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    CHECK(device, value);
    if (attribute == 0 || attribute > 255)
        return CUDA_ERROR_INVALID_VALUE;
    if (read_card_attribute(attribute, card_of(device), value))
        return CUDA_SUCCESS;
    *value = 0; /* what this driver does not know, the card does not have */
    for (size_t i = 0; i < COUNT(SAME); i++)
        if (SAME[i].number == attribute)
            *value = SAME[i].value;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    CHECK(device, can);
    CHECK(peer, can);
    *can = device != peer;
    return CUDA_SUCCESS;
}
