/* Modules and functions. An image is PTX text (its .entry names exist), a binary (any name exists), or refused. */
#define _GNU_SOURCE
#include "module.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/base/thread.h"
#include "kernel_time.h"
#include "shared/process/locks.h"

#define FATBIN_WRAPPER 0x466243B1u
#define FATBIN 0xBA55ED50u

enum image { BINARY, PTX, BAD_PTX, UNKNOWN };

static enum image image_of(const void *image) {
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    if (magic == FATBIN || magic == FATBIN_WRAPPER || memcmp(image, "\177ELF", 4) == 0 ||
        memcmp(image, "SGPU", 4) == 0)
        return BINARY;
    const char *text = image;
    if (strstr(text, ".version") && strstr(text, ".target"))
        return PTX;
    return isprint((unsigned char)text[0]) || isspace((unsigned char)text[0]) ? BAD_PTX : UNKNOWN;
}

/* "name\nname\n" of all .entry directives */
static char *list_entries(const char *text) {
    char *names = calloc(1, strlen(text) + 2), *into = names;
    for (const char *at = strstr(text, ".entry"); names && at; at = strstr(at, ".entry")) {
        at += strlen(".entry");
        at += strspn(at, " \t\r\n");
        size_t length = strcspn(at, " \t\r\n({;");
        memcpy(into, at, length);
        into += length;
        *into++ = '\n';
    }
    return names;
}

static bool defines(const char *entries, const char *name) {
    size_t length = strlen(name);
    if (!entries)
        return true;
    for (const char *at = entries; *at; at = strchr(at, '\n') + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '\n')
            return true;
    return false;
}

static CUresult load(CUmodule *module, const void *image, CUcontext context) {
    enum image kind = image_of(image);
    if (kind == UNKNOWN)
        return CUDA_ERROR_INVALID_IMAGE;
    if (kind == BAD_PTX)
        return CUDA_ERROR_INVALID_PTX;
    CUmodule made = sg_new_handle(SG_MODULE_HANDLE, sizeof *made);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->context = context;
    made->entries = kind == PTX ? list_entries(image) : NULL;
    *module = made;
    return CUDA_SUCCESS;
}

CUresult sg_load_module(CUmodule *module, const void *image, CUcontext context) {
    return load(module, image, context);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    NEED_INIT();
    CUcontext context;
    CUresult result = sg_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    return load(module, image, context);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                            void **values) {
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
    return cuModuleLoadData(module, image);
}

static char *read_whole(const char *path) {
    FILE *file = fopen(path, "rbe");
    if (!file)
        return NULL;
    char *text = NULL;
    size_t length = 0;
    FILE *into = open_memstream(&text, &length);
    for (int byte; into && (byte = getc(file)) != EOF;)
        putc(byte, into);
    if (into)
        fclose(into);
    fclose(file);
    return text;
}

CUresult cuModuleLoad(CUmodule *module, const char *path) {
    NEED_INIT();
    if (!module || !path)
        return CUDA_ERROR_INVALID_VALUE;
    char *image = read_whole(path);
    if (!image)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result = cuModuleLoadData(module, image);
    free(image);
    return result;
}

CUresult cuModuleUnload(CUmodule module) {
    NEED_INIT();
    if (!sg_is(module, SG_MODULE_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    while (module->functions) {
        CUfunction function = module->functions;
        module->functions = function->next;
        free(function->name);
        sg_free_handle(function, SG_FUNCTION_HANDLE);
    }
    free(module->entries);
    sg_free_handle(module, SG_MODULE_HANDLE);
    return CUDA_SUCCESS;
}

static struct sg_mutex functions_lock = SG_MUTEX(SG_RANK_FUNCTIONS);

static CUfunction add_function(CUmodule module, const char *name) {
    CUfunction function = sg_new_handle(SG_FUNCTION_HANDLE, sizeof *function);
    if (!function)
        return NULL;
    function->module = module;
    function->name = strdup(name);
    sg_describe_function(function);
    function->next = module->functions;
    module->functions = function;
    return function;
}

static CUfunction get_function(CUmodule module, const char *name) {
    sg_lock(&functions_lock);
    CUfunction function = module->functions;
    while (function && strcmp(function->name, name) != 0)
        function = function->next;
    if (!function)
        function = add_function(module, name);
    sg_unlock(&functions_lock);
    return function;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    NEED_INIT();
    if (!function || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sg_is(module, SG_MODULE_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!*name || strchr(name, '\n') || !defines(module->entries, name))
        return CUDA_ERROR_NOT_FOUND;
    *function = get_function(module, name);
    return *function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
