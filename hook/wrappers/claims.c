/* Counting, with the daemon asked and told where the count says so.  No lock is held while it is. */
#include "wrappers/claims.h"

#include "driver/contexts.h"
#include "driver/devices.h"
#include "driver/lookup.h"
#include "memory/memory.h"
#include "memory/pools.h"
#include "turns/turns.h"

__thread int inside_driver;

/* Asks for room to grow; when a whole step is refused, for just what is needed. */
static enum growth ask_to_grow(int gpu, const struct claim *claim) {
    if (turns_reserve(gpu, claim->wish))
        return GROWTH_OF_WISH;
    return turns_reserve(gpu, claim->need) ? GROWTH_OF_NEED : GROWTH_REFUSED;
}

static CUresult claim_once(int gpu, enum memory_kind kind, uint64_t bytes) {
    struct claim claim = memory_claim(gpu, kind, bytes);
    if (UNLIKELY(claim.wish)) {
        enum growth growth = ask_to_grow(gpu, &claim);
        claim.is_refused = growth == GROWTH_REFUSED;
        claim.must_tell = memory_settle_claim(gpu, kind, bytes, growth);
    }
    if (claim.must_tell)
        turns_tell_use(gpu);
    return claim.is_refused ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult claims_make(int gpu, enum memory_kind kind, uint64_t bytes) {
    CUresult result = claim_once(gpu, kind, bytes);
    if (LIKELY(result == CUDA_SUCCESS) || !memory_kept(gpu))
        return result;
    pools_trim(gpu);
    claims_settle_pools(gpu);
    return claim_once(gpu, kind, bytes);
}

void claims_return(int gpu, enum memory_kind kind, uint64_t bytes) {
    if (memory_return(gpu, kind, bytes))
        turns_tell_use(gpu);
}

int claims_forget(enum memory_space space, uint64_t name) {
    struct forgotten forgotten = memory_forget(space, name);
    if (forgotten.must_tell)
        turns_tell_use(forgotten.gpu);
    return forgotten.is_pooled ? forgotten.gpu : -1;
}

void claims_refer(uint64_t handle, int change) {
    struct allocation gone;
    if (memory_refer(handle, change, &gone))
        claims_return(gone.gpu, gone.kind, gone.bytes);
}

void claims_settle_pools(int gpu) {
    if (pools_look(gpu))
        turns_tell_use(gpu);
}

static void tell(uint64_t gpus) {
    for (int gpu = 0; gpu < devices_count(); gpu++)
        if (gpus >> gpu & 1)
            turns_tell_use(gpu);
}

void claims_end_graph(CUgraph graph) { tell(memory_end_graph(graph)); }

void claims_end_contexts(void) {
    uint64_t told = memory_end_contexts();
    pools_forget_ended();
    for (int gpu = 0; gpu < devices_count(); gpu++)
        told |= (uint64_t)pools_look(gpu) << gpu;
    tell(told);
    context_set_gone(NULL);
}
