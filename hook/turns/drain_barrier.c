/* The processes of a container end a turn together.
 *
 * Why: a kernel of one may wait for a partner that another has yet to launch (a collective).  If each shut its gate for
 * itself, the first would never drain.  So each shows how far it is, in its slot of the ledger; one that is empty while
 * another is stuck lets single launches through until the other is free; and nobody says `done` before all are empty.
 * What a process shows is for that turn alone, a word a GPU: a word of another turn counts as not yet aware. */
#include "turns/drain_barrier.h"

#include "memory/ledger.h"
#include "nvshare_contract.h"

void barrier_show(int gpu, uint32_t counter, enum drain drain) {
    ledger_show_drain(gpu, (uint64_t)counter << 8 | drain);
}

struct others barrier_look(int gpu, uint32_t counter) {
    uint64_t words[NVSHARE_SHARED_MEMORY_LEDGER_SLOTS];
    unsigned count = ledger_drains(gpu, words, NVSHARE_SHARED_MEMORY_LEDGER_SLOTS);
    struct others others = {0};
    for (unsigned i = 0; i < count; i++) {
        enum drain drain = words[i] >> 8 == counter ? words[i] & 0xff : NOT_DRAINING;
        others.is_any_stuck |= drain == STUCK;
        others.is_any_flying |= drain == STUCK || drain == FLYING;
        others.is_any_unaware |= drain == NOT_DRAINING;
    }
    return others;
}
