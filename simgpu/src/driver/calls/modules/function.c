/* Functions: their names and settings; globals of modules; linking. */
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
