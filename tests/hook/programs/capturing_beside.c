/* While one stream captures, a kernel of 300 ms is launched elsewhere; says `launched`, waits for a line, and ends the capture.
 * capturing_beside join: into a stream that then joins the capture; capturing_beside per-thread: by a second thread into its
 * own stream, while a stream captures that the legacy one would wait for */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "program.h"

CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned int);
CUresult cuEventCreate(CUevent *, unsigned int);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuGraphGetNodes(CUgraph, CUgraphNode *, size_t *);

static CUfunction small, large;
static CUstream first, second;
static CUevent fork_mark, join_mark;
static sem_t is_captured, is_launched;

static void *launch_in_own_stream(void *ignored) {
    (void)ignored;
    use_device(0);
    CHECK(launch(small, CU_STREAM_PER_THREAD));
    sem_post(&is_launched);
    sem_wait(&is_captured);
    CHECK(launch(large, CU_STREAM_PER_THREAD));
    sem_post(&is_launched);
    for (;;)
        pause();
    return NULL;
}

static void launch_and_join(void) {
    CHECK(launch(large, second));
    CHECK(cuEventRecord(fork_mark, first));
    CHECK(cuStreamWaitEvent(second, fork_mark, 0));
}

static void join_back(void) {
    CHECK(cuEventRecord(join_mark, second));
    CHECK(cuStreamWaitEvent(first, join_mark, 0));
}

int main(int count, char **words) {
    pthread_t thread;
    CUgraph graph;
    size_t nodes = 0;
    int is_joined = count > 1 && !strcmp(words[1], "join");
    use_device(0);
    small = kernel_named("step_1us");
    large = kernel_named("step_300ms");
    CHECK(cuStreamCreate(&first, is_joined));
    CHECK(cuStreamCreate(&second, 1));
    CHECK(cuEventCreate(&fork_mark, 2));
    CHECK(cuEventCreate(&join_mark, 2));
    if (!is_joined) {
        pthread_create(&thread, NULL, launch_in_own_stream, NULL);
        sem_wait(&is_launched);
    }
    CHECK(launch(small, first));
    CHECK(cuStreamBeginCapture_v2(first, 0));
    CHECK(launch(small, first));
    sem_post(&is_captured);
    if (is_joined)
        launch_and_join();
    else
        sem_wait(&is_launched);
    printf("launched\n");
    fflush(stdout);
    getchar();
    if (is_joined)
        join_back();
    CHECK(cuStreamEndCapture(first, &graph));
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    printf("%zu\n", nodes);
    fflush(stdout);
    _Exit(0);
}
