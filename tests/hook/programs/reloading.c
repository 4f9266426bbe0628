/* Loads the driver by hand, uses it, lets it go, and does so again. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FIND(library, type, name) ((type)(uintptr_t)dlsym(library, name))

static void use(void *library) {
    int device, result = FIND(library, int (*)(unsigned), "cuInit")(0);
    void *context, *module, *function;
    result |= FIND(library, int (*)(int *, int), "cuDeviceGet")(&device, 0);
    result |= FIND(library, int (*)(void **, int), "cuDevicePrimaryCtxRetain")(&context, device);
    result |= FIND(library, int (*)(void *), "cuCtxSetCurrent")(context);
    result |= FIND(library, int (*)(void **, const void *), "cuModuleLoadData")(&module, "SGPU");
    result |= FIND(library, int (*)(void **, void *, const char *), "cuModuleGetFunction")(&function, module, "step_1us");
    for (int i = 0; i < 100 && !result; i++)
        result |= FIND(library, int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                                        void **, void **), "cuLaunchKernel")(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    result |= FIND(library, int (*)(void), "cuCtxSynchronize")();
    if (result)
        exit(3);
}

int main(void) {
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(i % 2 ? "libcuda.so" : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!library)
            return 2;
        use(library);
        dlclose(library);
    }
    printf("done\n");
    return 0;
}
