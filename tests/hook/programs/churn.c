/* Allocates and frees at random, as fast as it can, until killed: for the ledger that must stay exact. churn SEED
 * It ends with the test that started it, too, should that be killed before. */
#include <sys/prctl.h>
#include <signal.h>

#include "program.h"

int main(int count, char **words) {
    CUdeviceptr held[64] = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    srand(count > 1 ? (unsigned)atoi(words[1]) : 1);
    use_device(0);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        int place = rand() % 64;
        if (held[place])
            CHECK(cuMemFree_v2(held[place]));
        held[place] = 0;
        if (cuMemAlloc_v2(&held[place], (size_t)(1 + rand() % 4096) << 10))
            held[place] = 0;
    }
}
