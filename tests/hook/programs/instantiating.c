/* Instantiates a graph that is uploaded in the same call, per thread or not, then launches without a configuration; says
 * when each call has returned.  instantiating [ptsz] */
#include "program.h"

CUresult cuGraphCreate(CUgraph *, unsigned int);
CUresult cuGraphInstantiateWithParams(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *);
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *);
CUresult cuLaunchKernelEx(const CUlaunchConfig *, CUfunction, void **, void **);
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *, CUfunction, void **, void **);

static void say(const char *what, CUresult result) {
    printf("%s %d\n", what, result);
    fflush(stdout);
}

int main(int count, char **words) {
    CUgraph graph;
    CUgraphExec exec;
    int is_per_thread = count > 1 && !strcmp(words[1], "ptsz");
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    use_device(0);
    CHECK(cuGraphCreate(&graph, 0));
    CUfunction kernel = kernel_named("step_1us");
    say("nothing", is_per_thread ? cuLaunchKernelEx_ptsz(NULL, kernel, NULL, NULL) : cuLaunchKernelEx(NULL, kernel, NULL, NULL));
    say("instantiated", (is_per_thread ? cuGraphInstantiateWithParams_ptsz : cuGraphInstantiateWithParams)(&exec, graph, &params));
    params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    say("uploaded", (is_per_thread ? cuGraphInstantiateWithParams_ptsz : cuGraphInstantiateWithParams)(&exec, graph, &params));
    return 0;
}
