/* Ends of captures that are none, and captures that end by none.
 * capture_failing wrong-thread: prints what each call answers while another thread tries to end the capture;
 * capture_failing stream|context: what 20,000 launches cost, after a capture's stream or context was destroyed over before */
#include <pthread.h>

#include "program.h"

CUresult cuStreamBeginCapture_v2(CUstream, CUstreamCaptureMode);
CUresult cuStreamEndCapture(CUstream, CUgraph *);

static CUfunction kernel;
static CUstream stream;

static void *end_capture(void *ignored) {
    CUgraph graph;
    (void)ignored;
    use_device(0);
    printf("%d\n", cuStreamEndCapture(stream, &graph));
    return NULL;
}

static void end_in_wrong_thread(void) {
    pthread_t thread;
    CUgraph graph;
    CHECK(cuStreamBeginCapture_v2(stream, 0));
    pthread_create(&thread, NULL, end_capture, NULL);
    pthread_join(thread, NULL);
    for (int i = 0; i < 3; i++)
        printf("%d\n", launch(kernel, stream));
    printf("%d\n", cuStreamEndCapture(stream, &graph));
    printf("%d\n", cuStreamEndCapture(stream, &graph));
}

static double cost(void) {
    double least = 1e9;
    for (int round = 0; round < 7; round++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        for (int i = 0; i < 20000; i++)
            CHECK(launch(kernel, stream));
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        double took = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
        least = took < least ? took : least;
    }
    return least;
}

static void destroy_capturing(int is_context) {
    CUcontext context;
    CUstream capturing;
    if (is_context)
        CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuStreamCreate(&capturing, 1));
    CHECK(cuStreamBeginCapture_v2(capturing, 0));
    CHECK(is_context ? cuCtxDestroy_v2(context) : cuStreamDestroy_v2(capturing));
}

int main(int count, char **words) {
    use_device(0);
    kernel = kernel_named("empty_0ns");
    CHECK(cuStreamCreate(&stream, 1));
    if (count > 1 && !strcmp(words[1], "wrong-thread")) {
        end_in_wrong_thread();
        return 0;
    }
    double before = cost();
    destroy_capturing(!strcmp(words[1], "context"));
    printf("%.3f\n", cost() / before);
    return 0;
}
