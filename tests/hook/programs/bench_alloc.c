/* ns of processor time an allocation and its return, with so many others alive: least of several rounds.
 * bench_alloc LIVE TIMES ROUNDS */
#include "program.h"

static double processor_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int count, char **words) {
    long live = count > 1 ? atol(words[1]) : 20000, times = count > 2 ? atol(words[2]) : 20000;
    int rounds = count > 3 ? atoi(words[3]) : 5;
    CUdeviceptr pointer;
    double best = 1e9;
    use_device(0);
    for (long i = 0; i < live; i++)
        CHECK(cuMemAllocManaged(&pointer, 4096, 1));
    for (int round = 0; round < rounds; round++) {
        double began = processor_ns();
        for (long i = 0; i < times; i++) {
            CHECK(cuMemAllocManaged(&pointer, 4096, 1));
            CHECK(cuMemFree_v2(pointer));
        }
        double each = (processor_ns() - began) / (double)times;
        best = each < best ? each : best;
    }
    printf("%.1f\n", best);
    return 0;
}
