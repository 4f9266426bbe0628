/* A thread that looks ten times as often as a switch between containers comes, and touches or gives back pages.
 *
 * What the kernel does with a charge beyond the limit is real: the process is killed by it.  What UVM does then, only a
 * card can show (simgpu/README.md).
 */
#define _GNU_SOURCE
#include "host_pages.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "client.h"
#include "shared/devices/paging.h"
#include "transaction.h"

#define PAGE 4096ull
#define LOOK_NS 10000000
#define MOST_BYTES (1ull << 38) /* address space, not memory */

static char *pages;
static uint64_t held;

static uint64_t paged_out(void) {
    double sum = 0;
    struct sg_state state = sg_begin();
    for (int i = sg_next_used(state.core, -1); i >= 0; i = sg_next_used(state.core, i))
        if (state.context[i].owner == state.map->owner)
            sum += sg_paged_out(&state.context[i]);
    sg_commit(&state);
    return (uint64_t)sum / PAGE * PAGE;
}

static void hold(uint64_t bytes) {
    bytes = bytes < MOST_BYTES ? bytes : MOST_BYTES;
    for (; held < bytes; held += PAGE)
        pages[held] = 1;
    if (held > bytes)
        madvise(pages + bytes, held - bytes, MADV_DONTNEED);
    held = bytes;
}

static void *watch(void *unused) {
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    for (;;) {
        hold(paged_out());
        nanosleep(&pause, NULL);
    }
    return unused;
}

bool sg_start_host_pages(void) {
    pthread_t thread;
    pages = mmap(NULL, MOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return false;
    madvise(pages, MOST_BYTES, MADV_NOHUGEPAGE); /* bytes are charged as they come, not in 2 MiB */
    return pthread_create(&thread, NULL, watch, NULL) == 0 && pthread_detach(thread) == 0;
}
