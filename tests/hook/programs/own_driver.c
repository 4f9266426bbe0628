/* Asks NVIDIA's own libcuda.so.1, on a machine without a card.
 *
 *   own_driver look-ups NAMES VERSION…   every name of the file, at every version, with every flag of a default stream
 *   own_driver life                      load, init, unload, fork, threads, exit
 *   own_driver deep LIBRARY              what a library finds that is loaded with RTLD_DEEPBIND
 *
 * A function is said as `library symbol offset`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int look_up(const char *symbol, void **found, int version, uint64_t flags, int *status);

static void *open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return library;
}

static void say_where(const char *before, void *function) {
    Dl_info info = {0};
    if (!function || !dladdr(function, &info)) {
        printf("%s nothing nothing 0\n", before);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    printf("%s %s %s %zu\n", before, slash ? slash + 1 : info.dli_fname, info.dli_sname ? info.dli_sname : "?",
           (size_t)((char *)function - (char *)info.dli_fbase));
}

static void look_up_all(const char *names, char **versions) {
    look_up *ask = (look_up *)(uintptr_t)dlsym(open_driver(), "cuGetProcAddress_v2");
    FILE *file = fopen(names, "re");
    char name[128], before[256];
    while (file && fscanf(file, "%127s", name) == 1) {
        for (char **version = versions; *version; version++) {
            for (uint64_t flags = 0; flags < 3; flags++) {
                void *found = NULL;
                int status = -1, result = ask(name, &found, atoi(*version), flags, &status);
                snprintf(before, sizeof before, "%s %s %d %d %d", name, *version, (int)flags, result, status);
                say_where(before, result ? NULL : found);
            }
        }
    }
    if (file)
        fclose(file);
}

static int init_of(void *library) {
    int (*init)(unsigned) = (int (*)(unsigned))(uintptr_t)dlsym(library, "cuInit");
    return init(0);
}

static void *ask_often(void *library) {
    for (int i = 0; i < 200; i++)
        if (!dlsym(library, i % 2 ? "cuLaunchKernel" : "cuMemAlloc_v2"))
            exit(2);
    return NULL;
}

static int fork_and_init(void) {
    int status = 0;
    fflush(stdout);
    if (fork() == 0)
        exit(init_of(open_driver()));
    wait(&status);
    return WEXITSTATUS(status);
}

static void live(void) {
    pthread_t threads[4];
    printf("before %d\n", fork_and_init());
    for (int i = 0; i < 20; i++) {
        void *library = open_driver();
        int result = init_of(library), version = 0, count = -1;
        ((int (*)(int *))(uintptr_t)dlsym(library, "cuDriverGetVersion"))(&version);
        int counted = ((int (*)(int *))(uintptr_t)dlsym(library, "cuDeviceGetCount"))(&count);
        if (i % 10 == 0)
            printf("init %d version %d count %d %d child %d\n", result, version, counted, count, fork_and_init());
        dlclose(library);
    }
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, ask_often, open_driver());
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("ends\n");
}

int main(int count, char **words) {
    if (count > 3 && !strcmp(words[1], "look-ups"))
        look_up_all(words[2], words + 3);
    else if (count == 2 && !strcmp(words[1], "life"))
        live();
    else if (count == 3 && !strcmp(words[1], "deep")) {
        void *deep = dlopen(words[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
        void *(*find)(const char *) = deep ? (void *(*)(const char *))(uintptr_t)dlsym(deep, "find") : NULL;
        void *(*ask)(const char *) = deep ? (void *(*)(const char *))(uintptr_t)dlsym(deep, "ask") : NULL;
        say_where("dlsym", find ? find("cuLaunchKernel") : NULL);
        say_where("cuGetProcAddress", ask ? ask("cuLaunchKernel") : NULL);
    } else
        return 64;
    return 0;
}
