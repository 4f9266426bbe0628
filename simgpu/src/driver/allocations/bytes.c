/* Moves and sets bytes. Every copy of the API is a three-dimensional one with some sides of 1.
 *
 * Content is kept only for the first `SIMGPU_DATA_BYTES` of an allocation: a copy of gigabytes takes its time on the
 * device, but not the machine's memory.
 */
#include "bytes.h"

#include <string.h>

#include "array_layout.h"
#include "shared/process/client.h"

enum memory_type { HOST = 1, DEVICE = 2, ARRAY = 3, UNIFIED = 4 };

struct side {
    char *base;
    uint64_t pitch, height, x, y, z;
    uint64_t limit; /* bytes from base that are kept */
    bool valid;
};

static uint64_t kept_bytes(uint64_t address) {
    const struct sg_block *block = sg_find_block(address);
    if (!block || block->kind == SG_REGISTERED || block->kind == SG_PINNED)
        return UINT64_MAX;
    uint64_t kept = sg_client.settings.data_bytes, offset = address - block->start;
    uint64_t end = block->bytes < kept ? block->bytes : kept;
    return end > offset ? end - offset : 0;
}

static struct side linear(uint64_t address, uint64_t pitch, uint64_t height, bool on_device) {
    return (struct side){.base = (char *)(uintptr_t)address,
                         .pitch = pitch,
                         .height = height,
                         .limit = kept_bytes(address),
                         .valid = on_device ? sg_find_block(address) != NULL : address != 0};
}

static struct side of_array(CUarray array) {
    if (!sg_is(array, SG_ARRAY_HANDLE))
        return (struct side){.valid = false};
    struct side side = linear(array->block->start, array->pitch, array->rows, true);
    return side;
}

static struct side source_of(const CUDA_MEMCPY3D *copy) {
    struct side side = {0};
    switch ((enum memory_type)copy->srcMemoryType) {
    case HOST:
        side = linear((uint64_t)(uintptr_t)copy->srcHost, copy->srcPitch, copy->srcHeight, false);
        break;
    case DEVICE:
        side = linear(copy->srcDevice, copy->srcPitch, copy->srcHeight, true);
        break;
    case UNIFIED:
        side = linear(copy->srcDevice, copy->srcPitch, copy->srcHeight, false);
        break;
    case ARRAY:
        side = of_array(copy->srcArray);
        break;
    }
    side.x = copy->srcXInBytes, side.y = copy->srcY, side.z = copy->srcZ;
    return side;
}

static struct side target_of(const CUDA_MEMCPY3D *copy) {
    struct side side = {0};
    switch ((enum memory_type)copy->dstMemoryType) {
    case HOST:
        side = linear((uint64_t)(uintptr_t)copy->dstHost, copy->dstPitch, copy->dstHeight, false);
        break;
    case DEVICE:
        side = linear(copy->dstDevice, copy->dstPitch, copy->dstHeight, true);
        break;
    case UNIFIED:
        side = linear(copy->dstDevice, copy->dstPitch, copy->dstHeight, false);
        break;
    case ARRAY:
        side = of_array(copy->dstArray);
        break;
    }
    side.x = copy->dstXInBytes, side.y = copy->dstY, side.z = copy->dstZ;
    return side;
}

static uint64_t offset_of(const struct side *side, uint64_t width, uint64_t y, uint64_t z) {
    uint64_t pitch = side->pitch ? side->pitch : width;
    uint64_t height = side->height ? side->height : 1;
    return ((side->z + z) * height + side->y + y) * pitch + side->x;
}

static uint64_t fitting(const struct side *side, uint64_t offset, uint64_t length) {
    if (offset >= side->limit)
        return 0;
    return side->limit - offset < length ? side->limit - offset : length;
}

static void copy_row(const struct side *to, const struct side *from, uint64_t to_offset, uint64_t from_offset,
                     uint64_t length) {
    uint64_t writable = fitting(to, to_offset, length), readable = fitting(from, from_offset, writable);
    memmove(to->base + to_offset, from->base + from_offset, readable);
    memset(to->base + to_offset + readable, 0, writable - readable); /* not kept: reads as zero */
}

uint64_t sg_copied_bytes(const CUDA_MEMCPY3D *copy) {
    return copy->WidthInBytes * copy->Height * copy->Depth;
}

static bool has_pitch(const struct side *side, const CUDA_MEMCPY3D *copy) {
    bool needs_pitch = copy->Height > 1 || copy->Depth > 1;
    return !needs_pitch || side->pitch == 0 || side->pitch >= side->x + copy->WidthInBytes;
}

/* Does the copied range end inside the allocation it begins in? */
static bool ends_inside(const struct side *side, const CUDA_MEMCPY3D *copy) {
    const struct sg_block *block = sg_find_block((uint64_t)(uintptr_t)side->base);
    if (!block)
        return true; /* ordinary host memory */
    uint64_t last = offset_of(side, copy->WidthInBytes, copy->Height - 1, copy->Depth - 1) + copy->WidthInBytes;
    return (uint64_t)(uintptr_t)side->base - block->start + last <= block->bytes;
}

CUresult sg_copy_bytes(const CUDA_MEMCPY3D *copy) {
    if (sg_copied_bytes(copy) == 0)
        return CUDA_SUCCESS;
    struct side from = source_of(copy), to = target_of(copy);
    if (!from.valid || !to.valid || !has_pitch(&from, copy) || !has_pitch(&to, copy) || !ends_inside(&from, copy) ||
        !ends_inside(&to, copy))
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t z = 0; z < copy->Depth; z++)
        for (uint64_t y = 0; y < copy->Height; y++)
            copy_row(&to, &from, offset_of(&to, copy->WidthInBytes, y, z), offset_of(&from, copy->WidthInBytes, y, z),
                     copy->WidthInBytes);
    return CUDA_SUCCESS;
}

static void set_row(char *at, const CUDA_MEMSET_NODE_PARAMS *set, uint64_t bytes) {
    if (set->elementSize == 1) {
        memset(at, (int)set->value, bytes);
        return;
    }
    for (uint64_t i = 0; i + set->elementSize <= bytes; i += set->elementSize)
        memcpy(at + i, &set->value, set->elementSize);
}

CUresult sg_set_bytes(const CUDA_MEMSET_NODE_PARAMS *set) {
    const struct sg_block *block = sg_find_block(set->dst);
    uint64_t width = set->width * set->elementSize, pitch = set->height > 1 ? set->pitch : width;
    if (set->width == 0 || set->height == 0)
        return CUDA_SUCCESS;
    if (set->elementSize != 1 && set->elementSize != 2 && set->elementSize != 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (!block || set->dst % set->elementSize || pitch < width ||
        set->dst - block->start + pitch * (set->height - 1) + width > block->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    struct side side = linear(set->dst, pitch, 0, true);
    for (uint64_t y = 0; y < set->height; y++)
        set_row(side.base + y * pitch, set, fitting(&side, y * pitch, width));
    return CUDA_SUCCESS;
}

/* ---- what of it is managed memory */

static void touch(CUcontext context, uint64_t start, uint64_t end, uint64_t bytes, struct sg_touched *touched) {
    struct sg_block *block = sg_find_block(start);
    if (!block || block->kind != SG_MANAGED || block->context != context)
        return;
    touched->bytes += bytes;
    touched->fresh += sg_touch_block(block, end - block->start);
}

static void touch_side(CUcontext context, const struct side *side, const CUDA_MEMCPY3D *copy,
                       struct sg_touched *touched) {
    uint64_t start = (uint64_t)(uintptr_t)side->base;
    uint64_t last = offset_of(side, copy->WidthInBytes, copy->Height - 1, copy->Depth - 1) + copy->WidthInBytes;
    touch(context, start, start + last, sg_copied_bytes(copy), touched);
}

struct sg_touched sg_touch_by_copy(CUcontext context, const CUDA_MEMCPY3D *copy) {
    struct sg_touched touched = {0};
    if (sg_copied_bytes(copy) == 0)
        return touched;
    const struct side from = source_of(copy), to = target_of(copy);
    touch_side(context, &from, copy, &touched);
    touch_side(context, &to, copy, &touched);
    return touched;
}

struct sg_touched sg_touch_by_set(CUcontext context, const CUDA_MEMSET_NODE_PARAMS *set) {
    struct sg_touched touched = {0};
    uint64_t width = set->width * set->elementSize, pitch = set->height > 1 ? set->pitch : width;
    if (width && set->height)
        touch(context, set->dst, set->dst + pitch * (set->height - 1) + width, width * set->height, &touched);
    return touched;
}
