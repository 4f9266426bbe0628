/* Keeps a stream full, as an autotuner does not, then times one launch by two events at a moment when it would have to wait;
 * prints the milliseconds between the events, and those that the launch call took.  timing KERNEL TIMES */
#include "program.h"

CUresult cuEventCreate(CUevent *event, unsigned int flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);

int main(int count, char **words) {
    CUstream stream;
    CUevent events[2];
    EXPECT(count == 3);
    use_device(0);
    CUfunction filling = kernel_named(words[1]), measured = kernel_named("candidate_1ms");
    CHECK(cuStreamCreate(&stream, 1));
    for (int i = 0; i < 2; i++)
        CHECK(cuEventCreate(&events[i], 0));
    for (int i = 0, times = atoi(words[2]); i < times; i++) {
        float between;
        for (int k = 0; k < 30; k++)
            CHECK(launch(filling, stream));
        CHECK(cuEventRecord(events[0], stream));
        double began = seconds();
        for (int k = 0; k < 8; k++)
            CHECK(launch(measured, stream));
        double took = seconds() - began;
        CHECK(cuEventRecord(events[1], stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuEventElapsedTime(&between, events[0], events[1]));
        printf("%.3f %.3f\n", (double)between, took * 1e3);
    }
    return 0;
}
