/* What a pointer is: every attribute that cuda.h names, of every kind of memory. */
#include <string.h>

#include "driver/allocations/pools.h"
#include "driver/base/init.h"
#include "vmm.h"

enum pointer_attribute {
    CONTEXT = 1,
    MEMORY_TYPE = 2,
    DEVICE_POINTER = 3,
    HOST_POINTER = 4,
    P2P_TOKENS = 5,
    SYNC_MEMOPS = 6,
    BUFFER_ID = 7,
    IS_MANAGED = 8,
    DEVICE_ORDINAL = 9,
    IS_IPC_CAPABLE = 10,
    RANGE_START = 11,
    RANGE_SIZE = 12,
    MAPPED = 13,
    HANDLE_TYPES = 14,
    IS_RDMA_CAPABLE = 15,
    ACCESS_FLAGS = 16,
    POOL = 17,
    MAPPING_SIZE = 18,
    MAPPING_START = 19,
    BLOCK_ID = 20,
    IS_DECOMPRESS_CAPABLE = 21,
    ATTRIBUTES
};

#define HOST 1u
#define DEVICE 2u
#define READ_AND_WRITE 3u
#define DESCRIPTOR_TYPE 1u

static const size_t WIDTHS[ATTRIBUTES] = {
    [CONTEXT] = 8,      [MEMORY_TYPE] = 4,      [DEVICE_POINTER] = 8,  [HOST_POINTER] = 8,   [P2P_TOKENS] = 16,
    [SYNC_MEMOPS] = 4,  [BUFFER_ID] = 8,        [IS_MANAGED] = 4,      [DEVICE_ORDINAL] = 4, [IS_IPC_CAPABLE] = 4,
    [RANGE_START] = 8,  [RANGE_SIZE] = 8,       [MAPPED] = 4,          [HANDLE_TYPES] = 8,   [IS_RDMA_CAPABLE] = 4,
    [ACCESS_FLAGS] = 4, [POOL] = 8,             [MAPPING_SIZE] = 8,    [MAPPING_START] = 8,  [BLOCK_ID] = 8,
    [IS_DECOMPRESS_CAPABLE] = 4,
};

struct memory {
    const struct sg_block *block;
    struct sg_mapped mapped; /* the physical memory; of other blocks, the block itself */
    bool is_mapped;
};

static struct memory memory_of(CUdeviceptr pointer) {
    struct memory memory = {.block = sg_find_block(pointer)};
    const struct sg_block *block = memory.block;
    if (!block)
        return memory;
    memory.is_mapped = block->kind != SG_RESERVED || sg_find_mapped(pointer, &memory.mapped);
    if (block->kind != SG_RESERVED)
        memory.mapped = (struct sg_mapped){block->start, block->bytes, block->device, 0};
    const CUmemoryPool pool = block->pool;
    if (pool)
        memory.mapped.handle_types = pool->handle_types;
    return memory;
}

static bool is_on_host(const struct sg_block *block) {
    return block->kind == SG_PINNED || block->kind == SG_REGISTERED;
}

/* The number of the card among the devices that this process sees; -1 for one that it does not see. */
static uint64_t ordinal_of(uint32_t device) {
    for (uint32_t i = 0; i < sg_visible_count; i++)
        if (sg_visible[i] == device)
            return i;
    return (uint32_t)-1;
}

/* Answers that are numbers: they are cut to their width. */
static uint64_t number_of(enum pointer_attribute attribute, const struct memory *memory, CUdeviceptr pointer) {
    const struct sg_block *block = memory->block;
    switch (attribute) {
    case CONTEXT: return (uint64_t)(uintptr_t)block->context;
    case MEMORY_TYPE: return is_on_host(block) ? HOST : DEVICE;
    case DEVICE_POINTER:
    case HOST_POINTER: return pointer;
    case SYNC_MEMOPS: return block->sync_memops;
    case BUFFER_ID:
    case BLOCK_ID: return block->id;
    case IS_MANAGED: return block->kind == SG_MANAGED;
    case DEVICE_ORDINAL: return ordinal_of(memory->mapped.device);
    case IS_IPC_CAPABLE: return block->kind == SG_PLAIN;
    case RANGE_START: return block->start;
    case RANGE_SIZE: return block->bytes;
    case MAPPED: return memory->is_mapped;
    case HANDLE_TYPES: return memory->mapped.handle_types & DESCRIPTOR_TYPE;
    case ACCESS_FLAGS: return memory->is_mapped ? READ_AND_WRITE : 0;
    case POOL: return (uint64_t)(uintptr_t)block->pool;
    case MAPPING_SIZE: return memory->mapped.bytes;
    case MAPPING_START: return memory->mapped.start;
    default: return 0;
    }
}

static CUresult write_attribute(void *data, CUpointer_attribute attribute, const struct memory *memory,
                                CUdeviceptr pointer) {
    const struct sg_block *block = memory->block;
    if (!block || attribute == 0 || attribute >= ATTRIBUTES)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == P2P_TOKENS) /* for kernel modules that are gone */
        return CUDA_ERROR_NOT_SUPPORTED;
    if (attribute == HOST_POINTER && !is_on_host(block) && block->kind != SG_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == CONTEXT && !block->context)
        return CUDA_ERROR_INVALID_VALUE;
    const uint64_t number = number_of((enum pointer_attribute)attribute, memory, pointer);
    memcpy(data, &number, WIDTHS[attribute]);
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer) {
    NEED_INIT();
    const struct memory memory = memory_of(pointer);
    return data ? write_attribute(data, attribute, &memory, pointer) : CUDA_ERROR_INVALID_VALUE;
}

/* cuda.h: an attribute that the pointer does not have is 0 here, and that is no error. */
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer) {
    NEED_INIT();
    if (!attributes || !data || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    const struct memory memory = memory_of(pointer);
    for (unsigned i = 0; i < count; i++) {
        if (attributes[i] == 0 || attributes[i] >= ATTRIBUTES || !data[i])
            return CUDA_ERROR_INVALID_VALUE;
        if (write_attribute(data[i], attributes[i], &memory, pointer) != CUDA_SUCCESS)
            memset(data[i], 0, WIDTHS[attributes[i]]);
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer) {
    NEED_INIT();
    struct sg_block *block = sg_find_block(pointer);
    if (!value || !block || attribute != SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    block->sync_memops = *(const unsigned *)value != 0;
    return CUDA_SUCCESS;
}
