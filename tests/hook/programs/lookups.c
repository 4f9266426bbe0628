/* Prints, for every way to find a driver function, which library and which symbol it found: `way library symbol`. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "program.h"

typedef CUresult get_v1(const char *symbol, void **found, int version, cuuint64_t flags);
typedef CUresult get_v2(const char *symbol, void **found, int version, cuuint64_t flags, int *status);

static void show(const char *way, void *found) {
    Dl_info info = {0};
    if (!found || !dladdr(found, &info)) {
        printf("%s nothing nothing\n", way);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    printf("%s %s %s\n", way, slash ? slash + 1 : info.dli_fname, info.dli_sname ? info.dli_sname : "?");
}

static void ask(get_v2 *get, const char *way, const char *symbol, int version, cuuint64_t flags) {
    void *found = NULL;
    int status = -1;
    CUresult result = get(symbol, &found, version, flags, &status);
    show(way, result ? NULL : found);
    printf("%s.status status %d\n", way, status);
}

int main(int count, char **words) {
    void *versioned = dlopen("libcuda.so.1", RTLD_LAZY), *plain = dlopen("libcuda.so", RTLD_LAZY), *found = NULL;
    show("link", (void *)(uintptr_t)cuLaunchKernel);
    show("default", dlsym(RTLD_DEFAULT, "cuLaunchKernel"));
    show("next", dlsym(RTLD_NEXT, "cuLaunchKernel"));
    show("handle", dlsym(versioned, "cuLaunchKernel"));
    show("plain-handle", plain ? dlsym(plain, "cuLaunchKernel") : NULL);
    show("main-handle", dlsym(dlopen(NULL, RTLD_LAZY), "cuLaunchKernel"));
    show("unwrapped", dlsym(versioned, "cuDriverGetVersion"));
    show("absent", dlsym(versioned, "cuNoSuchThing"));
    show("nvml", dlsym(dlopen("libnvidia-ml.so.1", RTLD_LAZY), "nvmlDeviceGetMemoryInfo"));
    show("libm", dlsym(dlopen("libm.so.6", RTLD_LAZY), "cos"));
    show("libm-versioned", dlvsym(dlopen("libm.so.6", RTLD_LAZY), "cos", "GLIBC_2.2.5"));
    show("foreign", count > 1 ? dlsym(dlopen(words[1], RTLD_LAZY | RTLD_LOCAL), "cuLaunchKernel") : NULL);
    CHECK(cuInit(0));
    get_v1 *first = (get_v1 *)(uintptr_t)dlsym(versioned, "cuGetProcAddress");
    get_v2 *second = (get_v2 *)(uintptr_t)dlsym(versioned, "cuGetProcAddress_v2");
    CHECK(first("cuMemAlloc", &found, 11030, 0));
    show("v1", found);
    ask(second, "v2", "cuMemAlloc", 12000, 0);
    ask(second, "v2-old", "cuMemAlloc", 2000, 0);
    ask(second, "v2-legacy", "cuLaunchKernel", 12000, 1);
    ask(second, "v2-per-thread", "cuLaunchKernel", 12000, 2);
    ask(second, "v2-per-thread-sync", "cuMemcpyHtoD", 12000, 2);
    ask(second, "v2-batch-12", "cuMemcpyBatchAsync", 12080, 0);
    ask(second, "v2-batch-13", "cuMemcpyBatchAsync", 13000, 0);
    ask(second, "v2-too-early", "cuMemcpyBatchAsync", 12000, 0);
    ask(second, "v2-absent", "cuNoSuchThing", 12000, 0);
    ask(second, "v2-future", "cuLaunchKernel", 99000, 0);
    CHECK(second("cuGetProcAddress", &found, 12000, 0, NULL));
    show("second-hop", found);
    ask((get_v2 *)(uintptr_t)found, "after-second-hop", "cuMemFree", 12000, 0);
    return 0;
}
