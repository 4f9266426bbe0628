/* Captures streams in global mode, again and again, while other threads launch and turns come and go: every capture must
 * end well and its graph hold just what was launched into it.  capturing SECONDS */
#include <pthread.h>
#include <stdatomic.h>

#include "program.h"

CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned int);
CUresult cuEventCreate(CUevent *, unsigned int);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuGraphGetNodes(CUgraph, CUgraphNode *, size_t *);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuGraphDestroy(CUgraph);

static CUfunction kernel;
static atomic_bool is_over;
static long captured;

/* Launches beside the captures, in a stream that does not wait for the legacy one. */
static void *launch_beside(void *ignored) {
    CUstream stream;
    (void)ignored;
    use_device(0);
    CHECK(cuStreamCreate(&stream, 1));
    while (!atomic_load(&is_over))
        CHECK(launch(kernel, stream));
    return NULL;
}

static void capture_once(CUstream first, CUstream second, CUevent fork, CUevent join) {
    CUgraph graph;
    CUgraphExec exec;
    size_t nodes = 0;
    CHECK(cuStreamBeginCapture_v2(first, 0));
    CHECK(launch(kernel, first));
    CHECK(cuEventRecord(fork, first));
    CHECK(cuStreamWaitEvent(second, fork, 0));
    for (int i = 0; i < 3; i++)
        CHECK(launch(kernel, second));
    CHECK(cuEventRecord(join, second));
    CHECK(cuStreamWaitEvent(first, join, 0));
    CHECK(launch(kernel, first));
    CHECK(cuStreamEndCapture(first, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    EXPECT(nodes == 5);
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, first));
    CHECK(launch(kernel, second)); /* outside: the stream is dirty when the next capture begins */
    CHECK(cuStreamSynchronize(first));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
    captured++;
}

int main(int count, char **words) {
    pthread_t beside;
    CUstream first, second;
    CUevent fork, join;
    use_device(0);
    kernel = kernel_named("step_20us");
    CHECK(cuStreamCreate(&first, 1));
    CHECK(cuStreamCreate(&second, 1));
    CHECK(cuEventCreate(&fork, 2));
    CHECK(cuEventCreate(&join, 2));
    pthread_create(&beside, NULL, launch_beside, NULL);
    for (double end = seconds() + (count > 1 ? atof(words[1]) : 1); seconds() < end;)
        capture_once(first, second, fork, join);
    atomic_store(&is_over, 1);
    pthread_join(beside, NULL);
    CHECK(cuCtxSynchronize());
    printf("%ld\n", captured);
    return 0;
}
