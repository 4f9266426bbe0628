/* Memory files: made, described by their names, opened through /proc by the other process. */
#define _GNU_SOURCE
#include "exports.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/process/client.h"

#define NAME "simgpu-%u-%u-%016llx-%016llx" /* kind, card, machine, token */

static uint64_t machine(void) {
    return sg_client.map.header->created_monotonic_ns;
}

bool sg_make_export(enum sg_export_kind kind, uint32_t card, uint64_t bytes, struct sg_export *made) {
    char name[96];
    *made = (struct sg_export){.machine = machine(), .bytes = bytes, .kind = kind, .card = card};
    if (getrandom(&made->token, sizeof made->token, 0) != sizeof made->token)
        return false;
    snprintf(name, sizeof name, NAME, kind, card, (unsigned long long)made->machine, (unsigned long long)made->token);
    made->process = (int32_t)getpid();
    made->descriptor = memfd_create(name, MFD_CLOEXEC);
    if (made->descriptor >= 0 && ftruncate(made->descriptor, (off_t)bytes) == 0)
        return true;
    if (made->descriptor >= 0)
        close(made->descriptor);
    return false;
}

bool sg_describe_export(int descriptor, enum sg_export_kind kind, struct sg_export *found) {
    char link[48], name[160] = {0};
    unsigned is_kind, card;
    unsigned long long of_machine, token;
    struct stat status;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    if (readlink(link, name, sizeof name - 1) < 0 || fstat(descriptor, &status) != 0 ||
        sscanf(name, "/memfd:" NAME, &is_kind, &card, &of_machine, &token) != 4)
        return false;
    *found = (struct sg_export){
        .machine = of_machine, .token = token, .bytes = (uint64_t)status.st_size, .kind = is_kind, .card = card};
    return is_kind == kind && of_machine == machine() && card < sg_client.map.header->devices;
}

int sg_open_export(const struct sg_export *handle, enum sg_export_kind kind) {
    char path[48];
    struct sg_export found;
    if (handle->machine != machine() || handle->kind != kind)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle->process, handle->descriptor);
    int descriptor = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return -1;
    if (sg_describe_export(descriptor, kind, &found) && found.token == handle->token && found.card == handle->card &&
        found.bytes >= handle->bytes)
        return descriptor;
    close(descriptor);
    return -1;
}

bool sg_is_own_export(const struct sg_export *handle) {
    return handle->machine == machine() && handle->process == (int32_t)getpid();
}

/* ---- blocks */

/* What the block holds is carried over; the rest of it reads as zero, as before. */
static bool move_into_file(const struct sg_block *block, int descriptor) {
    uint64_t kept = block->bytes < sg_client.settings.data_bytes ? block->bytes : sg_client.settings.data_bytes;
    const char *at = (const char *)(uintptr_t)block->start;
    for (uint64_t done = 0; done < kept;) {
        ssize_t written = pwrite(descriptor, at + done, kept - done, (off_t)done);
        if (written <= 0)
            return false;
        done += (uint64_t)written;
    }
    return mmap((void *)(uintptr_t)block->start, sg_mapped_bytes(block), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_FIXED | MAP_NORESERVE, descriptor, 0) != MAP_FAILED;
}

const struct sg_export *sg_export_block(struct sg_block *block) {
    struct sg_export made;
    if (block->exported)
        return block->exported;
    if (!sg_make_export(SG_EXPORT_MEMORY, block->device, sg_mapped_bytes(block), &made))
        return NULL;
    made.bytes = block->bytes;
    struct sg_export *kept = malloc(sizeof *kept);
    if (!kept || !move_into_file(block, made.descriptor)) {
        free(kept);
        close(made.descriptor);
        return NULL;
    }
    *kept = made;
    block->exported_descriptor = made.descriptor;
    return block->exported = kept;
}

struct sg_block *sg_import_block(const struct sg_export *handle, CUcontext context) {
    int descriptor = sg_open_export(handle, SG_EXPORT_MEMORY);
    if (descriptor < 0)
        return NULL;
    void *base = mmap(NULL, sg_round_up(handle->bytes, SG_PAGE), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                      descriptor, 0);
    close(descriptor);
    if (base == MAP_FAILED)
        return NULL;
    struct sg_block *block = sg_enter_block(SG_IMPORTED, context, (uint64_t)(uintptr_t)base, handle->bytes);
    if (block)
        block->device = handle->card;
    else
        munmap(base, sg_round_up(handle->bytes, SG_PAGE));
    return block;
}
