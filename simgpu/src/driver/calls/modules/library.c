/* Libraries: modules that belong to no context. A kernel becomes a function in each context it is used in. */
#include "library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/base/thread.h"
#include "module.h"
#include "shared/process/locks.h"

struct loaded {
    CUcontext context;
    uint32_t serial;
    CUmodule module;
    struct loaded *next;
};

struct CUlib_st {
    struct sg_handle handle;
    char *image; /* text; NULL: a binary in which any name exists */
    struct loaded *loaded;
    struct CUkern_st *kernels;
};

struct CUkern_st {
    struct sg_handle handle;
    CUlibrary library;
    char *name;
    struct sg_attributes attributes[SG_DEVICES];
    struct CUkern_st *next;
};

static struct sg_mutex libraries_lock = SG_MUTEX(SG_RANK_LIBRARIES);
static const char ANY_NAME[] = "SGPU";

static bool is_text(const char *image) {
    return memcmp(image, "\177ELF", 4) != 0 && memcmp(image, "SGPU", 4) != 0 && image[0] >= '\t' && image[0] < 127;
}

CUresult cuLibraryLoadData(CUlibrary *made, const void *image, CUjit_option *options, void **option_values,
                           unsigned option_count, CUlibraryOption *library_options, void **library_values,
                           unsigned library_count) {
    NEED_INIT();
    (void)options, (void)option_values, (void)option_count;
    (void)library_options, (void)library_values, (void)library_count;
    if (!made || !image)
        return CUDA_ERROR_INVALID_VALUE;
    CUmodule probe;
    CUresult result = sg_load_module(&probe, image, NULL);
    if (result != CUDA_SUCCESS)
        return result;
    cuModuleUnload(probe);
    CUlibrary library = sg_new_handle(SG_LIBRARY_HANDLE, sizeof *library);
    if (!library)
        return CUDA_ERROR_OUT_OF_MEMORY;
    library->image = is_text(image) ? strdup(image) : NULL;
    *made = library;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadFromFile(CUlibrary *made, const char *path, CUjit_option *options, void **option_values,
                               unsigned option_count, CUlibraryOption *library_options, void **library_values,
                               unsigned library_count) {
    char text[65536] = {0};
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return CUDA_ERROR_FILE_NOT_FOUND;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    if (length < 4)
        return CUDA_ERROR_INVALID_IMAGE;
    return cuLibraryLoadData(made, text, options, option_values, option_count, library_options, library_values,
                             library_count);
}

static void free_kernels(CUlibrary library) {
    while (library->kernels) {
        CUkernel kernel = library->kernels;
        library->kernels = kernel->next;
        free(kernel->name);
        sg_free_handle(kernel, SG_KERNEL_HANDLE);
    }
}

CUresult cuLibraryUnload(CUlibrary library) {
    NEED_INIT();
    if (!sg_is(library, SG_LIBRARY_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    free_kernels(library);
    while (library->loaded) {
        struct loaded *loaded = library->loaded;
        library->loaded = loaded->next;
        cuModuleUnload(loaded->module);
        free(loaded);
    }
    free(library->image);
    sg_free_handle(library, SG_LIBRARY_HANDLE);
    return CUDA_SUCCESS;
}

static CUmodule load_into(CUlibrary library, CUcontext context) {
    struct loaded *loaded = library->loaded;
    while (loaded && (loaded->context != context || loaded->serial != context->serial))
        loaded = loaded->next;
    if (loaded)
        return loaded->module;
    loaded = calloc(1, sizeof *loaded);
    if (!loaded || sg_load_module(&loaded->module, library->image ? library->image : ANY_NAME, context)) {
        free(loaded);
        return NULL;
    }
    loaded->context = context;
    loaded->serial = context->serial;
    loaded->next = library->loaded;
    library->loaded = loaded;
    return loaded->module;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    CUcontext context;
    NEED_INIT();
    CUresult result = sg_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!sg_is(library, SG_LIBRARY_HANDLE) || !module)
        return CUDA_ERROR_INVALID_HANDLE;
    sg_lock(&libraries_lock);
    *module = load_into(library, context);
    sg_unlock(&libraries_lock);
    return *module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUfunction sg_function_of_kernel(void *given, CUcontext context) {
    CUkernel kernel = given;
    CUfunction function = NULL;
    if (!sg_is(kernel, SG_KERNEL_HANDLE) || !sg_is(context, SG_CONTEXT_HANDLE))
        return NULL;
    sg_lock(&libraries_lock);
    CUmodule module = load_into(kernel->library, context);
    sg_unlock(&libraries_lock);
    if (module && cuModuleGetFunction(&function, module, kernel->name) == CUDA_SUCCESS)
        function->kernel = kernel;
    return function;
}

/* whether a name exists is the module's to say: a throw-away one is asked */
static bool defines(CUlibrary library, const char *name) {
    CUmodule module;
    CUfunction function;
    if (sg_load_module(&module, library->image ? library->image : ANY_NAME, NULL) != CUDA_SUCCESS)
        return false;
    bool found = cuModuleGetFunction(&function, module, name) == CUDA_SUCCESS;
    cuModuleUnload(module);
    return found;
}

static CUkernel add_kernel(CUlibrary library, const char *name) {
    CUkernel kernel = library->kernels;
    while (kernel && strcmp(kernel->name, name) != 0)
        kernel = kernel->next;
    if (kernel)
        return kernel;
    kernel = sg_new_handle(SG_KERNEL_HANDLE, sizeof *kernel);
    if (!kernel)
        return NULL;
    kernel->library = library;
    kernel->name = strdup(name);
    kernel->next = library->kernels;
    library->kernels = kernel;
    return kernel;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
    NEED_INIT();
    if (!sg_is(library, SG_LIBRARY_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!kernel || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!defines(library, name))
        return CUDA_ERROR_NOT_FOUND;
    sg_lock(&libraries_lock);
    *kernel = add_kernel(library, name);
    sg_unlock(&libraries_lock);
    return *kernel ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult probe_module(CUlibrary library, CUmodule *module) {
    NEED_INIT();
    if (!sg_is(library, SG_LIBRARY_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    return sg_load_module(module, library->image ? library->image : ANY_NAME, NULL);
}

CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library) {
    CUmodule module;
    CUresult result = probe_module(library, &module);
    if (result != CUDA_SUCCESS || !count)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    result = cuModuleGetFunctionCount(count, module);
    cuModuleUnload(module);
    return result;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned count, CUlibrary library) {
    CUmodule module;
    unsigned have = 0;
    CUresult result = probe_module(library, &module);
    if (result != CUDA_SUCCESS || !kernels)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    cuModuleGetFunctionCount(&have, module);
    CUfunction *functions = calloc(have + 1, sizeof *functions);
    if (functions)
        cuModuleEnumerateFunctions(functions, have, module);
    for (unsigned i = 0; functions && i < have && i < count; i++)
        cuLibraryGetKernel(&kernels[i], library, functions[i]->name);
    free(functions);
    cuModuleUnload(module);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name) {
    CUmodule module;
    CUresult result = cuLibraryGetModule(&module, library);
    return result == CUDA_SUCCESS ? cuModuleGetGlobal_v2(pointer, bytes, module, name) : result;
}

CUresult cuLibraryGetManaged(CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name) {
    (void)pointer, (void)bytes;
    NEED_INIT();
    return sg_is(library, SG_LIBRARY_HANDLE) && name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

/* ---- kernels */

static CUresult check(CUkernel kernel, const void *out) {
    NEED_INIT();
    if (!sg_is(kernel, SG_KERNEL_HANDLE))
        return CUDA_ERROR_INVALID_HANDLE;
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    CUcontext context;
    CUresult result = check(kernel, function);
    if (result == CUDA_SUCCESS)
        result = sg_current(&context);
    if (result != CUDA_SUCCESS)
        return result;
    *function = sg_function_of_kernel(kernel, context);
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel) {
    CUresult result = check(kernel, name);
    if (result == CUDA_SUCCESS)
        *name = kernel->name;
    return result;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel) {
    CUresult result = check(kernel, library);
    if (result == CUDA_SUCCESS)
        *library = kernel->library;
    return result;
}

struct sg_attributes *sg_attributes_of_kernel(CUkernel kernel, uint32_t card) {
    return &kernel->attributes[card];
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device) {
    (void)device;
    CUresult result = check(kernel, kernel);
    return result == CUDA_SUCCESS && config > 3 ? CUDA_ERROR_INVALID_VALUE : result;
}
