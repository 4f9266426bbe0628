/* A data-parallel job's process: computes, then meets its partner, again and again; prints how often. It looks at the result
 * every eighth step, as training does.  parallel DEVICE SECONDS */
#include "program.h"

int main(int count, char **words) {
    CUstream stream;
    long steps = 0;
    use_device(count > 1 ? atoi(words[1]) : 0);
    CUfunction compute = kernel_named("compute_2ms"), meet = kernel_named("allreduce_500us_x2");
    CHECK(cuStreamCreate(&stream, 1));
    for (double end = seconds() + atof(words[2]); seconds() < end;) {
        CHECK(launch(compute, stream));
        CHECK(launch(meet, stream));
        if (++steps % 8 == 0)
            CHECK(cuStreamSynchronize(stream));
    }
    printf("%ld\n", steps);
    fflush(stdout);
    _Exit(0); /* the partner may be a step behind: its last meeting must not be waited for */
}
