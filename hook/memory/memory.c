/* What the container has allocated.
 *
 * The rule: a total is never stored, so none can be wrong.  Each process keeps its own numbers in its own slot of the
 * ledger (ledger.c); what the container holds is the sum over the slots, and the daemon clears the slot of a process that
 * died.  To stay under a cap: add to the own slot, sum, take back when the sum is over; two that race may both be
 * refused, never both admitted.  The list of allocations is a hash table: with 20,000 alive, one more costs what it costs
 * with none. */
#include "memory/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "driver/contexts.h"
#include "driver/devices.h"
#include "driver/lookup.h"
#include "memory/allocations.h"
#include "memory/ledger.h"
#include "nvshare_contract.h"
#include "process/lock_order.h"

#define MOST_GPUS NVSHARE_SHARED_MEMORY_MOST_GPUS
#define MIB (UINT64_C(1) << 20)
#define CONTEXT_BYTES (300 * MIB)
#define HEADROOM (256 * MIB) /* how far a process grows before it asks the daemon again */
#define USING_STEP (64 * MIB)

struct own {
    uint64_t fields[LEDGER_OWN_MANAGED + 1]; /* as in the ledger */
    uint64_t headroom, told, card;
    uint64_t pooled, kept; /* of what is counted: in use from pools, and free in them */
    atomic_int is_managed; /* 0: not asked; 1: yes; 2: no */
};

static struct {
    uint64_t cap, peak;
    bool is_plain;
    struct own own[MOST_GPUS];
} self = {.cap = UINT64_MAX};

/* ------------------------------------------------------------------------------------------------ the ledger */

static void publish(int gpu, enum field field) {
    ledger_publish(gpu, field, self.own[gpu].fields[field]);
    atomic_thread_fence(memory_order_seq_cst); /* what we add is seen by whoever sums after us: none overlooks the other */
}

static uint64_t sum_of(int gpu, enum field field) {
    return ledger_has(gpu) ? ledger_sum(gpu, field) : self.own[gpu].fields[field];
}

static uint64_t allocated_of(int gpu) { return sum_of(gpu, LEDGER_PAGEABLE) + sum_of(gpu, LEDGER_UNPAGEABLE); }

/* What the card bounds where no cap does: everything but the program's own managed memory. */
static uint64_t bounded_by_card(int gpu) {
    uint64_t all = allocated_of(gpu) + sum_of(gpu, LEDGER_CONTEXT), free_of_it = sum_of(gpu, LEDGER_OWN_MANAGED);
    return all > free_of_it ? all - free_of_it : 0;
}

void memory_adopt(void *ledger, const char *list, unsigned slot, uint64_t cap, bool is_plain) {
    lock_take(LOCK_MEMORY);
    ledger_adopt(ledger, list, slot);
    self.cap = cap;
    self.is_plain = is_plain;
    for (int gpu = 0; gpu < MOST_GPUS; gpu++) {
        self.own[gpu].headroom = self.own[gpu].told = 0;
        for (int field = 0; field < FIELDS; field++)
            publish(gpu, (enum field)field);
        publish(gpu, LEDGER_OWN_MANAGED);
    }
    lock_release(LOCK_MEMORY);
}

/* ------------------------------------------------------------------------------------------------ claims */

static uint64_t card_bytes(int gpu) {
    size_t total = 0;
    if (!self.own[gpu].card && DRIVER_HAS(cuDeviceTotalMem_v2) &&
        driver.cuDeviceTotalMem_v2(&total, devices_ordinal(gpu)) == CUDA_SUCCESS)
        self.own[gpu].card = total;
    return self.own[gpu].card ? self.own[gpu].card : UINT64_MAX;
}

static void touch(int gpu) {
    if (LIKELY(self.own[gpu].fields[LEDGER_CONTEXT]))
        return;
    self.own[gpu].fields[LEDGER_CONTEXT] = CONTEXT_BYTES;
    publish(gpu, LEDGER_CONTEXT);
}

static void change(int gpu, enum field field, uint64_t bytes, bool is_less) {
    uint64_t *value = &self.own[gpu].fields[field];
    *value = !is_less ? *value + bytes : *value > bytes ? *value - bytes : 0;
    publish(gpu, field);
}

/* The part that the card does not bound is added first and taken last: in between, another process sees too little that the
 * card bounds, and none is refused for bytes that do not count. */
static void change_kind(int gpu, enum memory_kind kind, uint64_t bytes, bool is_less) {
    if (kind == OWN_MANAGED && !is_less)
        change(gpu, LEDGER_OWN_MANAGED, bytes, is_less);
    change(gpu, kind == UNPAGEABLE ? LEDGER_UNPAGEABLE : LEDGER_PAGEABLE, bytes, is_less);
    if (kind == OWN_MANAGED && is_less)
        change(gpu, LEDGER_OWN_MANAGED, bytes, is_less);
}

static void add(int gpu, enum memory_kind kind, uint64_t bytes) {
    touch(gpu);
    change_kind(gpu, kind, bytes, false);
}

/* Of what was admitted: a claim that is taken back was never held. */
static void raise_peak(int gpu) {
    uint64_t *fields = self.own[gpu].fields, both = fields[LEDGER_PAGEABLE] + fields[LEDGER_UNPAGEABLE];
    if (both > self.peak)
        self.peak = both;
    if (both <= fields[LEDGER_PEAK])
        return;
    fields[LEDGER_PEAK] = both;
    publish(gpu, LEDGER_PEAK);
}

/* What was held once, the container may grow by again. */
static void subtract(int gpu, enum memory_kind kind, uint64_t bytes) {
    struct own *own = &self.own[gpu];
    change_kind(gpu, kind, bytes, true);
    own->headroom += bytes;
    own->headroom = own->headroom < HEADROOM ? own->headroom : HEADROOM;
}

/* What a pool has taken back it may keep: it stays counted. */
static void keep(int gpu, uint64_t bytes) {
    self.own[gpu].pooled -= bytes;
    self.own[gpu].kept += bytes;
}

/* A cap may be larger than the card.  Without one the card is the end, as for a program without us: else one that allocates
 * until it is refused, as caching allocators do, would take all memory of the host. */
static bool is_over(int gpu, enum memory_kind kind) {
    if (self.cap != UINT64_MAX && allocated_of(gpu) > self.cap)
        return true;
    if (kind == UNPAGEABLE && sum_of(gpu, LEDGER_UNPAGEABLE) + sum_of(gpu, LEDGER_CONTEXT) > card_bytes(gpu))
        return true;
    return kind != OWN_MANAGED && self.cap == UINT64_MAX && bounded_by_card(gpu) > card_bytes(gpu);
}

/* The bytes to ask the daemon for before this claim may stand; 0: what was granted suffices. */
static uint64_t growth_to_ask(int gpu, uint64_t bytes) {
    struct own *own = &self.own[gpu];
    if (LIKELY(own->headroom >= bytes)) {
        own->headroom -= bytes;
        return 0;
    }
    return allocated_of(gpu) + HEADROOM * ledger_processes();
}

static bool must_tell(int gpu) {
    struct own *own = &self.own[gpu];
    uint64_t now = own->fields[LEDGER_PAGEABLE] + own->fields[LEDGER_UNPAGEABLE];
    if ((now > own->told ? now - own->told : own->told - now) < USING_STEP)
        return false;
    own->told = now;
    return true;
}

/* What the daemon was told is not used any more, it may have given to others. */
void memory_expect_less(int gpu) {
    lock_take(LOCK_MEMORY);
    self.own[gpu].headroom = 0;
    lock_release(LOCK_MEMORY);
}

/* Counted for good; true when the daemon must be told. */
static bool admit(int gpu) {
    raise_peak(gpu);
    return must_tell(gpu);
}

struct claim memory_claim(int gpu, enum memory_kind kind, uint64_t bytes) {
    struct claim claim = {.is_refused = bytes > MEMORY_MOST_BYTES}; /* before it is added: the sum would wrap */
    if (claim.is_refused)
        return claim;
    lock_take(LOCK_MEMORY);
    add(gpu, kind, bytes);
    claim.is_refused = is_over(gpu, kind);
    uint64_t wish = claim.is_refused ? 0 : growth_to_ask(gpu, bytes);
    if (wish) {
        claim.wish = wish < self.cap ? wish : self.cap;
        claim.need = allocated_of(gpu);
    }
    if (claim.is_refused)
        change_kind(gpu, kind, bytes, true); /* it had not taken any of the headroom yet */
    claim.must_tell = !claim.is_refused && !wish && admit(gpu);
    lock_release(LOCK_MEMORY);
    return claim;
}

bool memory_settle_claim(int gpu, enum memory_kind kind, uint64_t bytes, enum growth growth) {
    lock_take(LOCK_MEMORY);
    if (growth == GROWTH_REFUSED)
        change_kind(gpu, kind, bytes, true); /* it had not taken any of the headroom yet */
    else
        self.own[gpu].headroom = growth == GROWTH_OF_WISH ? HEADROOM : 0;
    bool is_told = growth != GROWTH_REFUSED && admit(gpu);
    lock_release(LOCK_MEMORY);
    return is_told;
}

bool memory_return(int gpu, enum memory_kind kind, uint64_t bytes) {
    lock_take(LOCK_MEMORY);
    subtract(gpu, kind, bytes);
    bool is_told = must_tell(gpu);
    lock_release(LOCK_MEMORY);
    return is_told;
}

void memory_touch(int gpu) {
    lock_take(LOCK_MEMORY);
    touch(gpu);
    lock_release(LOCK_MEMORY);
}

/* ------------------------------------------------------------------------------------------------ the allocations */

void memory_remember(const struct allocation *allocation) {
    lock_take(LOCK_MEMORY);
    allocations_add(allocation);
    lock_release(LOCK_MEMORY);
}

bool memory_take(enum memory_space space, uint64_t name, struct allocation *taken) {
    lock_take(LOCK_MEMORY);
    struct allocation *found = allocations_find(space, name);
    if (found) {
        *taken = *found;
        allocations_remove(found);
    }
    lock_release(LOCK_MEMORY);
    return found != NULL;
}

bool memory_find_kind(enum memory_space space, uint64_t name, enum memory_kind *kind) {
    lock_take(LOCK_MEMORY);
    const struct allocation *found = allocations_find(space, name);
    if (found)
        *kind = (enum memory_kind)found->kind;
    lock_release(LOCK_MEMORY);
    return found != NULL;
}

/* The driver may have given the same address to another thread before we come to hear of its return: then it is in the
 * list twice, and the older entry is found. */
struct forgotten memory_forget(enum memory_space space, uint64_t name) {
    struct forgotten forgotten = {.gpu = -1};
    lock_take(LOCK_MEMORY);
    struct allocation *found = allocations_find(space, name);
    if (found && found->owner != OF_GRAPH) { /* a graph takes its memory again when it is launched again */
        forgotten.gpu = found->gpu;
        forgotten.is_pooled = found->is_pooled;
        if (found->is_pooled)
            keep(found->gpu, found->bytes);
        else
            subtract(found->gpu, found->kind, found->bytes);
        allocations_remove(found);
        forgotten.must_tell = must_tell(forgotten.gpu);
    }
    lock_release(LOCK_MEMORY);
    return forgotten;
}

bool memory_refer(uint64_t handle, int change, struct allocation *gone) {
    lock_take(LOCK_MEMORY);
    struct allocation *found = allocations_find(POOL_HANDLE, handle);
    bool is_gone = found && (found->references += change) <= 0;
    if (is_gone) {
        *gone = *found;
        allocations_remove(found);
    }
    lock_release(LOCK_MEMORY);
    return is_gone;
}

static bool is_of_graph(const struct allocation *allocation, void *graph) {
    return allocation->owner == OF_GRAPH && graph && (void *)allocation->graph == graph;
}

static bool is_of_dead_context(const struct allocation *allocation, void *asked) {
    return allocation->owner == OF_CONTEXT && allocation->context && !context_is_alive_still(asked, allocation->context);
}

/* A bit for each GPU whose use must be told. */
static uint64_t remove_all(bool (*is_gone)(const struct allocation *, void *), void *which) {
    struct allocation gone;
    uint64_t told = 0;
    size_t from = 0;
    lock_take(LOCK_MEMORY);
    while (allocations_remove_next(is_gone, which, &from, &gone)) {
        self.own[(int)gone.gpu].pooled -= gone.is_pooled ? gone.bytes : 0;
        subtract(gone.gpu, gone.kind, gone.bytes);
    }
    for (int gpu = 0; gpu < MOST_GPUS; gpu++)
        told |= (uint64_t)must_tell(gpu) << gpu;
    lock_release(LOCK_MEMORY);
    return told;
}

uint64_t memory_end_graph(CUgraph graph) { return remove_all(is_of_graph, graph); }

uint64_t memory_end_contexts(void) {
    struct asked_contexts asked = {.count = 0};
    return remove_all(is_of_dead_context, &asked);
}

/* ------------------------------------------------------------------------------------------------ what pools keep */

uint64_t memory_reuse(int gpu, uint64_t bytes) {
    struct own *own = &self.own[gpu];
    lock_take(LOCK_MEMORY);
    uint64_t reused = own->kept < bytes ? own->kept : bytes;
    own->kept -= reused;
    own->pooled += bytes;
    lock_release(LOCK_MEMORY);
    return reused;
}

void memory_keep_again(int gpu, uint64_t bytes, uint64_t reused) {
    lock_take(LOCK_MEMORY);
    self.own[gpu].kept += reused;
    self.own[gpu].pooled -= bytes;
    lock_release(LOCK_MEMORY);
}

bool memory_settle_pools(int gpu, uint64_t reserved) {
    struct own *own = &self.own[gpu];
    lock_take(LOCK_MEMORY);
    uint64_t now = reserved > own->pooled ? reserved - own->pooled : 0, before = own->kept;
    own->kept = now;
    if (now > before) {
        add(gpu, UNPAGEABLE, now - before);
        own->headroom -= now - before < own->headroom ? now - before : own->headroom;
        raise_peak(gpu);
    } else if (now < before) {
        subtract(gpu, UNPAGEABLE, before - now);
    }
    bool is_told = now != before && must_tell(gpu);
    lock_release(LOCK_MEMORY);
    return is_told;
}

uint64_t memory_kept(int gpu) {
    lock_take(LOCK_MEMORY);
    uint64_t kept = self.own[gpu].kept;
    lock_release(LOCK_MEMORY);
    return kept;
}

/* ------------------------------------------------------------------------------------------------ questions */

bool memory_is_managed(int gpu) {
    struct own *own = &self.own[gpu];
    int value = 0;
    if (!own->is_managed && DRIVER_HAS(cuDeviceGetAttribute) && DRIVER_HAS(cuMemAllocManaged) &&
        driver.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, devices_ordinal(gpu)) == CUDA_SUCCESS)
        own->is_managed = value ? 1 : 2;
    return !self.is_plain && own->is_managed == 1;
}

uint64_t memory_cap(void) { return self.cap; }

uint64_t memory_container_use(int gpu) {
    lock_take(LOCK_MEMORY);
    uint64_t sum = allocated_of(gpu);
    lock_release(LOCK_MEMORY);
    return sum;
}

uint64_t memory_left(int gpu, uint64_t card) {
    lock_take(LOCK_MEMORY);
    touch(gpu); /* who asks has a context */
    uint64_t all = self.cap < card ? self.cap : card;
    uint64_t used = self.cap == UINT64_MAX ? bounded_by_card(gpu) : allocated_of(gpu);
    lock_release(LOCK_MEMORY);
    return all > used ? all - used : 0;
}

struct memory_use memory_own_use(int gpu) {
    lock_take(LOCK_MEMORY);
    struct memory_use use = {self.own[gpu].fields[LEDGER_PAGEABLE], self.own[gpu].fields[LEDGER_UNPAGEABLE]};
    lock_release(LOCK_MEMORY);
    return use;
}

uint64_t memory_peak(void) { return self.peak; }

void memory_after_fork(void) {
    ledger_forget();
    self.peak = 0;
    memset(self.own, 0, sizeof self.own);
    allocations_clear();
}
