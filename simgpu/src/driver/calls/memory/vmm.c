/* Virtual memory management: physical memory, address ranges, and mapping the one into the other. It does not page. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/allocations/exports.h"
#include "driver/base/thread.h"
#include "driver/calls/contexts/context.h"
#include "shared/process/locks.h"
#include "vmm.h"

#define GRANULARITY (2ull << 20)
#define PINNED_TYPE 1u
#define DEVICE_LOCATION 1u
#define DESCRIPTOR_TYPE 1u

/* Physical memory. Freed when neither a handle nor a mapping is left. */
struct allocation {
    struct sg_handle handle;
    CUmemAllocationProp prop;
    CUcontext context; /* that is charged; NULL: it is another process' */
    uint64_t bytes;
    uint32_t device, references;
    int content; /* a memory file: the same bytes wherever they are mapped */
};

static struct sg_mutex vmm_lock = SG_MUTEX(SG_RANK_MAPPINGS);

static struct allocation *find(CUmemGenericAllocationHandle handle) {
    struct allocation *allocation = (struct allocation *)(uintptr_t)handle;
    return sg_is(allocation, SG_ALLOCATION_HANDLE) ? allocation : NULL;
}

static CUresult check_prop(const CUmemAllocationProp *prop) {
    NEED_INIT();
    if (!prop || prop->type != PINNED_TYPE || prop->location.type != DEVICE_LOCATION)
        return prop && prop->location.type > 1 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    if (prop->location.id < 0 || (uint32_t)prop->location.id >= sg_visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    return prop->requestedHandleTypes & ~DESCRIPTOR_TYPE ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option) {
    CUresult result = check_prop(prop);
    if (result != CUDA_SUCCESS)
        return result;
    if (!granularity || option > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = GRANULARITY;
    return CUDA_SUCCESS;
}

/* Physical memory is charged to a context of its device: the current one, or the first there is. */
static CUcontext context_on(uint32_t device) {
    if (sg_is(sg_thread.current, SG_CONTEXT_HANDLE) && sg_thread.current->device == device)
        return sg_thread.current;
    return sg_context_on(device);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *made, size_t bytes, const CUmemAllocationProp *prop,
                     unsigned long long flags) {
    CUresult result = check_prop(prop);
    if (result != CUDA_SUCCESS)
        return result;
    if (!made || bytes == 0 || bytes % GRANULARITY || flags)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t device = sg_visible[prop->location.id];
    CUcontext context = context_on(device);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    result = sg_charge_plain(context, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    struct allocation *allocation = sg_new_handle(SG_ALLOCATION_HANDLE, sizeof *allocation);
    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->prop = *prop;
    allocation->context = context;
    allocation->bytes = bytes;
    allocation->device = device;
    allocation->references = 1;
    struct sg_export content;
    if (!sg_make_export(SG_EXPORT_PHYSICAL, device, bytes, &content)) {
        sg_refund_plain(context, bytes);
        sg_free_handle(allocation, SG_ALLOCATION_HANDLE);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    allocation->content = content.descriptor;
    *made = (uint64_t)(uintptr_t)allocation;
    return CUDA_SUCCESS;
}

static void release(struct allocation *allocation) {
    if (--allocation->references)
        return;
    close(allocation->content);
    if (sg_is(allocation->context, SG_CONTEXT_HANDLE))
        sg_refund_plain(allocation->context, allocation->bytes);
    sg_free_handle(allocation, SG_ALLOCATION_HANDLE);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    NEED_INIT();
    struct allocation *allocation = find(handle);
    if (!allocation)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock(&vmm_lock);
    release(allocation);
    sg_unlock(&vmm_lock);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr wanted,
                             unsigned long long flags) {
    NEED_INIT();
    (void)wanted; /* a hint */
    if (!pointer || bytes == 0 || bytes % GRANULARITY || flags || alignment & (alignment - 1))
        return CUDA_ERROR_INVALID_VALUE;
    struct sg_block *block =
        sg_add_block(SG_RESERVED, NULL, bytes, alignment > GRANULARITY ? alignment : GRANULARITY);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = block->start;
    return CUDA_SUCCESS;
}

/* What is mapped where: kept apart from the blocks, because one reservation holds many. */
struct mapping {
    uint64_t start, bytes, offset;
    struct allocation *allocation;
    bool accessible;
    struct mapping *next;
};

static struct mapping *mappings;

static struct mapping *overlapping(uint64_t start, uint64_t bytes) {
    struct mapping *mapping = mappings;
    while (mapping && (mapping->start >= start + bytes || start >= mapping->start + mapping->bytes))
        mapping = mapping->next;
    return mapping;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
    NEED_INIT();
    struct sg_block *block = sg_find_block(pointer);
    if (!block || block->kind != SG_RESERVED || block->start != pointer || block->bytes != bytes)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock(&vmm_lock);
    bool used = overlapping(pointer, bytes) != NULL;
    sg_unlock(&vmm_lock);
    if (used)
        return CUDA_ERROR_INVALID_VALUE;
    sg_remove_block(block);
    return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr pointer, size_t bytes, size_t offset, struct allocation *allocation) {
    struct mapping *mapping = overlapping(pointer, bytes) ? NULL : calloc(1, sizeof *mapping);
    if (!mapping)
        return CUDA_ERROR_INVALID_VALUE;
    void *at = (void *)(uintptr_t)pointer;
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, allocation->content,
             (off_t)offset) == MAP_FAILED) {
        free(mapping);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *mapping = (struct mapping){pointer, bytes, offset, allocation, false, mappings};
    mappings = mapping;
    allocation->references++;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
    NEED_INIT();
    struct allocation *allocation = find(handle);
    const struct sg_block *block = sg_find_block(pointer);
    if (!allocation || !block || block->kind != SG_RESERVED || flags || bytes == 0 || bytes % GRANULARITY ||
        pointer % GRANULARITY || pointer - block->start + bytes > block->bytes || offset + bytes > allocation->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock(&vmm_lock);
    CUresult result = map(pointer, bytes, offset, allocation);
    sg_unlock(&vmm_lock);
    return result;
}

static bool unmap_next(uint64_t start, uint64_t bytes) {
    for (struct mapping **at = &mappings; *at; at = &(*at)->next) {
        struct mapping *gone = *at;
        if (gone->start < start || gone->start + gone->bytes > start + bytes)
            continue;
        mmap((void *)(uintptr_t)gone->start, gone->bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        *at = gone->next;
        release(gone->allocation);
        free(gone);
        return true;
    }
    return false;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    NEED_INIT();
    bool any = false;
    sg_lock(&vmm_lock);
    while (unmap_next(pointer, bytes))
        any = true;
    sg_unlock(&vmm_lock);
    return any ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    NEED_INIT();
    if (!access || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock(&vmm_lock);
    struct mapping *mapping = overlapping(pointer, bytes);
    for (struct mapping *one = mappings; one; one = one->next)
        if (one->start >= pointer && one->start < pointer + bytes)
            one->accessible = access[0].flags != 0;
    sg_unlock(&vmm_lock);
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr pointer) {
    NEED_INIT();
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    sg_lock(&vmm_lock);
    const struct mapping *mapping = overlapping(pointer, 1);
    *flags = mapping && mapping->accessible ? 3 : 0;
    sg_unlock(&vmm_lock);
    return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    NEED_INIT();
    sg_lock(&vmm_lock);
    struct mapping *mapping = overlapping((uint64_t)(uintptr_t)address, 1);
    if (mapping && handle) {
        mapping->allocation->references++;
        *handle = (uint64_t)(uintptr_t)mapping->allocation;
    }
    sg_unlock(&vmm_lock);
    return mapping && handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle) {
    NEED_INIT();
    const struct allocation *allocation = find(handle);
    if (!allocation || !prop)
        return CUDA_ERROR_INVALID_VALUE;
    *prop = allocation->prop;
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
    NEED_INIT();
    const struct allocation *allocation = find(handle);
    if (!allocation || !shared || flags || !(allocation->prop.requestedHandleTypes & type))
        return CUDA_ERROR_INVALID_VALUE;
    int descriptor = dup(allocation->content);
    if (descriptor < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)shared = descriptor;
    return CUDA_SUCCESS;
}

/* The descriptor stays the caller's. The bytes stay charged to the process that made them. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *made, void *shared,
                                        CUmemAllocationHandleType type) {
    NEED_INIT();
    struct sg_export found;
    int descriptor = (int)(intptr_t)shared;
    if (!made || type != DESCRIPTOR_TYPE || !sg_describe_export(descriptor, SG_EXPORT_PHYSICAL, &found))
        return CUDA_ERROR_INVALID_VALUE;
    struct allocation *allocation = sg_new_handle(SG_ALLOCATION_HANDLE, sizeof *allocation);
    if (!allocation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    allocation->prop = (CUmemAllocationProp){.type = PINNED_TYPE, .requestedHandleTypes = DESCRIPTOR_TYPE};
    allocation->prop.location.type = DEVICE_LOCATION;
    for (uint32_t i = 0; i < sg_visible_count; i++)
        if (sg_visible[i] == found.card)
            allocation->prop.location.id = (int)i;
    allocation->bytes = found.bytes;
    allocation->device = found.card;
    allocation->references = 1;
    allocation->content = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (allocation->content < 0) {
        sg_free_handle(allocation, SG_ALLOCATION_HANDLE);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *made = (uint64_t)(uintptr_t)allocation;
    return CUDA_SUCCESS;
}

bool sg_find_mapped(CUdeviceptr pointer, struct sg_mapped *found) {
    sg_lock(&vmm_lock);
    const struct mapping *mapping = overlapping(pointer, 1);
    if (mapping)
        *found = (struct sg_mapped){mapping->start, mapping->bytes, mapping->allocation->device,
                                    mapping->allocation->prop.requestedHandleTypes};
    sg_unlock(&vmm_lock);
    return mapping != NULL;
}
