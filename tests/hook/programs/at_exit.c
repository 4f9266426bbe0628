/* Exits with a kernel in flight.  Its exit handler was registered before the driver's first call, so it comes after the hook's,
 * as the driver's own do.  It takes the driver's code away: any call of it by another thread ends the process by a signal.
 * at_exit forbidden | asks: launches there once more instead. */
#define _GNU_SOURCE
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

static CUfunction kernel;
static int asks;

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

static void at_the_end(void) {
    if (asks) {
        CHECK(launch(kernel, NULL));
        printf("launched\n");
        fflush(stdout);
        _exit(0);
    }
    EXPECT(dl_iterate_phdr(forbid, NULL));
    usleep(300000);
    _exit(0);
}

int main(int count, char **words) {
    asks = count > 1 && !strcmp(words[1], "asks");
    atexit(at_the_end);
    use_device(0);
    kernel = kernel_named(asks ? "step_50ms" : "step_3000ms");
    CHECK(launch(kernel, NULL));
    printf("in flight\n");
    fflush(stdout);
    getchar();
    return 0;
}
