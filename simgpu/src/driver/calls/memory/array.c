/* Arrays, mipmapped arrays, and the objects that read them. They are plain memory to the device: they do not page. */
#include <stdlib.h>

#include "driver/allocations/array_layout.h"
#include "driver/base/init.h"
#include "driver/base/queue.h"
#include "driver/graphs/capture.h"

#define LAYERED 1u
#define CUBEMAP 4u

struct format {
    CUarray_format number;
    unsigned bytes;
};

static const struct format FORMATS[] = {{0x01, 1}, {0x02, 2}, {0x03, 4}, {0x08, 1}, {0x09, 2},
                                        {0x0A, 4}, {0x10, 2}, {0x20, 4}};

static unsigned element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    for (size_t i = 0; i < COUNT(FORMATS); i++)
        if (FORMATS[i].number == shape->Format)
            return FORMATS[i].bytes * shape->NumChannels;
    return 0;
}

static bool is_valid(const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    unsigned channels = shape->NumChannels;
    return shape->Width && (channels == 1 || channels == 2 || channels == 4) && element_bytes(shape) &&
           shape->Width <= 131072 && shape->Height <= 65536 && shape->Depth <= 16384 &&
           !(shape->Flags & CUBEMAP && shape->Depth % 6);
}

static uint64_t at_least_1(uint64_t side) {
    return side ? side : 1;
}

static uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    return sg_round_up(shape->Width * element_bytes(shape), 512) * at_least_1(shape->Height) *
           at_least_1(shape->Depth);
}

static CUresult make(CUarray *made, CUcontext context, const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    uint64_t bytes = bytes_of(shape);
    CUresult result = sg_charge_plain(context, bytes);
    if (result != CUDA_SUCCESS)
        return result;
    CUarray array = sg_new_handle(SG_ARRAY_HANDLE, sizeof *array);
    struct sg_block *block = array ? sg_add_block(SG_PLAIN, context, bytes, 0) : NULL;
    if (!block) {
        sg_refund_plain(context, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->charged = bytes;
    array->block = block;
    array->shape = *shape;
    array->pitch = sg_round_up(shape->Width * element_bytes(shape), 512);
    array->rows = at_least_1(shape->Height);
    *made = array;
    return CUDA_SUCCESS;
}

CUresult cuArray3DCreate_v2(CUarray *made, const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    CUcontext context;
    CUresult result = sg_begin_unsafe(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!made || !shape || !is_valid(shape))
        return CUDA_ERROR_INVALID_VALUE;
    return make(made, context, shape);
}

CUresult cuArrayCreate_v2(CUarray *made, const CUDA_ARRAY_DESCRIPTOR *flat) {
    if (!flat)
        return CUDA_ERROR_INVALID_VALUE;
    const CUDA_ARRAY3D_DESCRIPTOR shape = {flat->Width, flat->Height, 0, flat->Format, flat->NumChannels, 0};
    return cuArray3DCreate_v2(made, &shape);
}

static CUresult ask(CUarray array, const void *out) {
    NEED_INIT();
    if (!sg_is(array, SG_ARRAY_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *shape, CUarray array) {
    CUresult result = ask(array, shape);
    if (result == CUDA_SUCCESS)
        *shape = array->shape;
    return result;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *flat, CUarray array) {
    CUresult result = ask(array, flat);
    if (result == CUDA_SUCCESS)
        *flat = (CUDA_ARRAY_DESCRIPTOR){array->shape.Width, array->shape.Height, array->shape.Format,
                                        array->shape.NumChannels};
    return result;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs, CUarray array, CUdevice device) {
    (void)device;
    CUresult result = ask(array, needs);
    if (result == CUDA_SUCCESS)
        *needs = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = array->block->bytes, .alignment = 512};
    return result;
}

CUresult cuArrayDestroy(CUarray array) {
    CUresult result = ask(array, array);
    if (result != CUDA_SUCCESS || array->owned)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE;
    sg_wait_context(array->block->context);
    sg_remove_block(array->block);
    sg_free_handle(array, SG_ARRAY_HANDLE);
    return CUDA_SUCCESS;
}

/* ---- mipmapped arrays: one array a level, each half as large */

#define MOST_LEVELS 20

struct CUmipmappedArray_st {
    struct sg_handle handle;
    unsigned levels;
    CUarray level[MOST_LEVELS];
};

static void destroy_levels(CUmipmappedArray mipmap) {
    for (unsigned i = 0; i < mipmap->levels; i++) {
        sg_remove_block(mipmap->level[i]->block);
        sg_free_handle(mipmap->level[i], SG_ARRAY_HANDLE);
    }
    sg_free_handle(mipmap, SG_MIPMAP_HANDLE);
}

static CUresult make_levels(CUmipmappedArray mipmap, CUcontext context, CUDA_ARRAY3D_DESCRIPTOR shape, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        CUresult result = make(&mipmap->level[i], context, &shape);
        if (result != CUDA_SUCCESS)
            return result;
        mipmap->level[mipmap->levels++]->owned = true;
        shape.Width = at_least_1(shape.Width / 2);
        shape.Height = shape.Height ? at_least_1(shape.Height / 2) : 0;
        if (!(shape.Flags & LAYERED))
            shape.Depth = shape.Depth ? at_least_1(shape.Depth / 2) : 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *made, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels) {
    CUcontext context;
    CUresult result = sg_begin_unsafe(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!made || !shape || !is_valid(shape) || levels == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUmipmappedArray mipmap = sg_new_handle(SG_MIPMAP_HANDLE, sizeof *mipmap);
    if (!mipmap)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = make_levels(mipmap, context, *shape, levels < MOST_LEVELS ? levels : MOST_LEVELS);
    if (result != CUDA_SUCCESS) {
        destroy_levels(mipmap);
        return result;
    }
    *made = mipmap;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *array, CUmipmappedArray mipmap, unsigned level) {
    NEED_INIT();
    if (!sg_is(mipmap, SG_MIPMAP_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!array || level >= mipmap->levels)
        return CUDA_ERROR_INVALID_VALUE;
    *array = mipmap->level[level];
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs, CUmipmappedArray mipmap,
                                               CUdevice device) {
    NEED_INIT();
    (void)device;
    if (!sg_is(mipmap, SG_MIPMAP_HANDLE) || !needs)
        return CUDA_ERROR_INVALID_VALUE;
    *needs = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.alignment = 512};
    for (unsigned i = 0; i < mipmap->levels; i++)
        needs->size += mipmap->level[i]->block->bytes;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmap) {
    NEED_INIT();
    if (!sg_is(mipmap, SG_MIPMAP_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    destroy_levels(mipmap);
    return CUDA_SUCCESS;
}
