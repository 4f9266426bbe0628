/* Functions: their attributes, occupancy, and names; globals of modules; linking. */
#include <stdlib.h>
#include <string.h>

#include "driver/allocations/blocks.h"
#include "driver/base/init.h"
#include "driver/graphs/capture.h"
#include "shared/process/client.h"

static CUresult check(CUfunction function, const void *out) {
    NEED_INIT();
    if (!sg_is(function, SG_FUNCTION_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static const int DEFAULTS[] = {1024, 0, 0, 0, 32, 70, 70, 0, 49152, -1, 0, 0, 0, 0, 0, 0};

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    CUresult result = check(function, value);
    if (result == CUDA_SUCCESS && attribute >= COUNT(DEFAULTS))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *value = function->attribute[attribute] ? function->attribute[attribute] : DEFAULTS[attribute];
    return result;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    CUresult result = check(function, function);
    if (result == CUDA_SUCCESS && (attribute < 8 || attribute >= COUNT(DEFAULTS)))
        result = CUDA_ERROR_INVALID_VALUE; /* the first eight say what was compiled */
    if (result == CUDA_SUCCESS)
        function->attribute[attribute] = value;
    return result;
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
    CUresult result = check(function, function);
    return result == CUDA_SUCCESS && config > 3 ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config) {
    CUresult result = check(function, function);
    return result == CUDA_SUCCESS && config > 2 ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
    CUresult result = check(function, module);
    if (result == CUDA_SUCCESS)
        *module = function->module;
    return result;
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
    CUresult result = check(function, name);
    if (result == CUDA_SUCCESS)
        *name = function->name;
    return result;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function) {
    CUresult result = check(function, state);
    if (result == CUDA_SUCCESS)
        *state = 1;
    return result;
}

CUresult cuFuncLoad(CUfunction function) {
    return check(function, function);
}

/* ---- occupancy: 2,048 threads and 32 blocks a multiprocessor */

static int blocks_per_multiprocessor(int threads) {
    int blocks = threads > 0 ? 2048 / (threads + 31 - (threads + 31) % 32) : 0;
    return blocks > 32 ? 32 : blocks;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared) {
    CUresult result = check(function, blocks);
    (void)shared;
    if (result == CUDA_SUCCESS && (threads < 1 || threads > 1024))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *blocks = blocks_per_multiprocessor(threads);
    return result;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
                                                              size_t shared, unsigned flags) {
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, CUoccupancyB2DSize shared_of,
                                          size_t shared, int most) {
    CUresult result = check(function, grid);
    (void)shared_of, (void)shared;
    if (result != CUDA_SUCCESS || !block)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    const struct sg_device_card *card = &sg_client.map.header->card[function->module->context->device];
    *block = most > 0 && most < 1024 ? most : 1024;
    *grid = (int)card->multiprocessors * blocks_per_multiprocessor(*block);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t shared, int most,
                                                   unsigned flags) {
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    return cuOccupancyMaxPotentialBlockSize(grid, block, function, shared_of, shared, most);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int threads) {
    CUresult result = check(function, bytes);
    if (result == CUDA_SUCCESS && (blocks < 1 || threads < 1))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *bytes = 98304u / (unsigned)blocks < 49152u ? 98304u / (unsigned)blocks : 49152u;
    return result;
}

/* ---- modules */

/* A module has no globals that we know of, except in images whose names nobody can list: there each has 64 KiB. */
#define GLOBAL_BYTES 65536u

CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name) {
    NEED_INIT();
    if (!sg_is(module, SG_MODULE_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name || (!pointer && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (module->entries)
        return CUDA_ERROR_NOT_FOUND;
    struct sg_block *block = sg_add_block(SG_PLAIN, module->context, GLOBAL_BYTES, 0);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (pointer)
        *pointer = block->start;
    if (bytes)
        *bytes = GLOBAL_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    NEED_INIT();
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = 2; /* lazy */
    return CUDA_SUCCESS;
}

static unsigned count_entries(const char *entries) {
    unsigned count = 0;
    for (const char *at = entries; at && *at; at++)
        count += *at == '\n';
    return count;
}

CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module) {
    NEED_INIT();
    if (!sg_is(module, SG_MODULE_HANDLE) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = count_entries(module->entries);
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned count, CUmodule module) {
    NEED_INIT();
    if (!sg_is(module, SG_MODULE_HANDLE) || !functions)
        return CUDA_ERROR_INVALID_VALUE;
    const char *at = module->entries;
    for (unsigned i = 0; i < count && at && *at; i++) {
        char name[256] = {0};
        size_t length = strcspn(at, "\n");
        memcpy(name, at, length < sizeof name - 1 ? length : sizeof name - 1);
        CUresult result = cuModuleGetFunction(&functions[i], module, name);
        if (result != CUDA_SUCCESS)
            return result;
        at += length + 1;
    }
    return CUDA_SUCCESS;
}

/* ---- linking: what was added is put together; the result is an image in which any name exists */

struct CUlinkState_st {
    struct sg_handle handle;
    char image[16];
    unsigned added;
};

CUresult cuLinkCreate_v2(unsigned count, CUjit_option *options, void **values, CUlinkState *made) {
    CUcontext context;
    (void)count, (void)options, (void)values;
    CUresult result = sg_begin_unsafe(&context);
    if (result != CUDA_SUCCESS || !made)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    *made = sg_new_handle(SG_LINK_HANDLE, sizeof **made);
    return *made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLinkAddData_v2(CUlinkState link, CUjitInputType type, void *data, size_t bytes, const char *name,
                          unsigned count, CUjit_option *options, void **values) {
    (void)name, (void)count, (void)options, (void)values;
    if (!sg_is(link, SG_LINK_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!data || !bytes || type > 6)
        return CUDA_ERROR_INVALID_VALUE;
    link->added++;
    return CUDA_SUCCESS;
}

CUresult cuLinkComplete(CUlinkState link, void **image, size_t *bytes) {
    if (!sg_is(link, SG_LINK_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!image || !link->added)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(link->image, "SGPU linked", sizeof "SGPU linked");
    *image = link->image;
    if (bytes)
        *bytes = sizeof link->image;
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState link) {
    if (!sg_is(link, SG_LINK_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    sg_free_handle(link, SG_LINK_HANDLE);
    return CUDA_SUCCESS;
}
