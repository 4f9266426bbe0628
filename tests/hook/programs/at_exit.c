/* Exits with a kernel in flight.  Its exit handler was registered before the driver's first call, so it comes after the hook's,
 * as the driver's own do.  It takes the driver's code away: any call of it by another thread ends the process by a signal.
 * It ends when the other threads have run so many times since.
 * at_exit TIMES | asks: its handler comes after the hook's and before the driver's, and launches once more. */
#define _GNU_SOURCE
#include <dirent.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

static CUfunction kernel;
static int asks, times;

static int forbid(struct dl_phdr_info *object, size_t size, void *ignored) {
    (void)size, (void)ignored;
    if (!strstr(object->dlpi_name, "libcuda.so"))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t begin = (object->dlpi_addr + part->p_vaddr) & ~(uintptr_t)4095;
        if (part->p_type == PT_LOAD && part->p_flags & PF_X)
            EXPECT(!mprotect((void *)begin, part->p_memsz + 4095, PROT_NONE));
    }
    return 1;
}

/* How often the other threads have gone to sleep. */
static long sleeps_of_others(void) {
    long all = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], line[200];
        long one;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = atoi(task->d_name) && atoi(task->d_name) != getpid() ? fopen(path, "r") : NULL;
        while (status && fgets(line, sizeof line, status))
            all += sscanf(line, "voluntary_ctxt_switches: %ld", &one) == 1 ? one : 0;
        if (status)
            fclose(status);
    }
    closedir(tasks);
    return all;
}

static void at_the_end(void) {
    if (asks) {
        CHECK(launch(kernel, NULL));
        printf("launched\n");
        fflush(stdout);
        _exit(0);
    }
    EXPECT(dl_iterate_phdr(forbid, NULL));
    double began = seconds();
    for (long before = sleeps_of_others(); sleeps_of_others() < before + times && seconds() < began + 20;)
        usleep(1000);
    _exit(0);
}

int main(int count, char **words) {
    asks = count > 1 && !strcmp(words[1], "asks");
    times = asks || count < 2 ? 5 : atoi(words[1]);
    if (!asks)
        atexit(at_the_end);
    use_device(0);
    if (asks) /* between the hook's and the driver's: the driver still works then */
        atexit(at_the_end);
    kernel = kernel_named(asks ? "step_50ms" : "step_3000ms");
    CHECK(launch(kernel, NULL));
    printf("in flight\n");
    fflush(stdout);
    getchar();
    return 0;
}
