/* The ledger's layout: a slot a process, in it a line a GPU, in the order of the welcome that came with it.
 *
 * The rule: a process writes its own slot only, and a total is never stored.  It knows GPUs by their place (driver/devices.h),
 * and nothing of allocations. */
#include "memory/ledger.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "driver/devices.h"
#include "nvshare_contract.h"
#include "process/lock_order.h"

#define MOST_GPUS NVSHARE_SHARED_MEMORY_MOST_GPUS
#define LINE NVSHARE_SHARED_MEMORY_LINE
#define SLOTS NVSHARE_SHARED_MEMORY_LEDGER_SLOTS

static struct {
    char *base;
    unsigned gpu_count, slot; /* the welcome's */
    int columns[MOST_GPUS];   /* of our places; negative: not in that welcome */
    _Atomic uint64_t *own[MOST_GPUS];
} self;

static _Atomic uint64_t *line_of(unsigned slot) {
    return (_Atomic uint64_t *)(void *)(self.base + LINE + (size_t)slot * LINE * (1 + self.gpu_count));
}

static _Atomic uint64_t *field_at(unsigned slot, int column, enum field field) {
    return line_of(slot) + (size_t)(LINE / sizeof(uint64_t)) * (1 + (size_t)column) + field;
}

/* The slots that were ever given out, told by the daemon in the header; 0: not told. */
static unsigned slots_in_use(void) {
    uint32_t told;
    memcpy(&told, self.base + 16, sizeof told);
    return told && told < SLOTS ? told : SLOTS;
}

void ledger_adopt(void *ledger, const char *list, unsigned slot) {
    self.base = slot < SLOTS ? ledger : NULL;
    self.slot = slot;
    self.gpu_count = (unsigned)devices_columns(list, self.columns);
    for (int gpu = 0; gpu < MOST_GPUS; gpu++)
        self.own[gpu] = self.base && self.columns[gpu] >= 0 ? field_at(slot, self.columns[gpu], 0) : NULL;
}

void ledger_forget(void) { memset(&self, 0, sizeof self); }

bool ledger_has(int gpu) { return self.own[gpu] != NULL; }

void ledger_publish(int gpu, enum field field, uint64_t value) {
    if (self.own[gpu])
        atomic_store_explicit(self.own[gpu] + field, value, memory_order_relaxed);
}

uint64_t ledger_sum(int gpu, enum field field) {
    uint64_t sum = 0;
    int column = self.columns[gpu];
    for (unsigned slot = 0, count = slots_in_use(); slot < count; slot++)
        sum += atomic_load_explicit(field_at(slot, column, field), memory_order_relaxed);
    return sum;
}

unsigned ledger_processes(void) {
    unsigned count = 0;
    for (unsigned slot = 0; self.base && slot < slots_in_use(); slot++)
        count += atomic_load(line_of(slot)) != 0;
    return count ? count : 1;
}

/* ------------------------------------------------------------------------------------------------ a word a GPU of its turn */

/* Also beside the owner, where a hook looks that is older than the words a GPU. */
void ledger_show_drain(int gpu, uint64_t word) {
    lock_take(LOCK_MEMORY);
    if (self.base)
        atomic_store(line_of(self.slot) + 1, word);
    if (self.own[gpu])
        atomic_store(self.own[gpu] + FIELDS, word);
    lock_release(LOCK_MEMORY);
}

void ledger_show_time(int gpu, uint64_t in_flight_ns, uint64_t longest_ns) {
    lock_take(LOCK_MEMORY);
    if (self.own[gpu]) {
        atomic_store(self.own[gpu] + NVSHARE_SHARED_MEMORY_LEDGER_IN_FLIGHT / sizeof(uint64_t), in_flight_ns);
        atomic_store(self.own[gpu] + NVSHARE_SHARED_MEMORY_LEDGER_LONGEST / sizeof(uint64_t), longest_ns);
    }
    lock_release(LOCK_MEMORY);
}

static uint64_t drain_of(unsigned slot, int column) {
    uint64_t word = column < 0 ? 0 : atomic_load(field_at(slot, column, FIELDS));
    return word ? word : atomic_load(line_of(slot) + 1);
}

unsigned ledger_drains(int gpu, uint64_t *words, unsigned most) {
    unsigned count = 0;
    lock_take(LOCK_MEMORY);
    for (unsigned slot = 0; self.base && slot < slots_in_use() && count < most; slot++)
        if (slot != self.slot && atomic_load(line_of(slot)))
            words[count++] = drain_of(slot, self.columns[gpu]);
    lock_release(LOCK_MEMORY);
    return count;
}
