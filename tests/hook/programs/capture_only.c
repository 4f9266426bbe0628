/* Captures launches into a graph, says so, and only then launches the graph. */
#include "program.h"

CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);

int main(void) {
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    use_device(0);
    CUfunction kernel = kernel_named("step_20us");
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuStreamBeginCapture_v2(stream, 0));
    for (int i = 0; i < 100; i++)
        CHECK(launch(kernel, stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    printf("captured\n");
    fflush(stdout);
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    return 0;
}
