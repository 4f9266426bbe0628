/* Cancels a thread that is in a call of ours, and then uses the GPU itself.
 * cancelling waiting: it waits for a daemon; cancelling pending: it was cancelled before it asks for its turn */
#include <pthread.h>
#include <unistd.h>

#include "program.h"

static CUfunction kernel;
static int is_pending;

static void *work(void *ignored) {
    (void)ignored;
    use_device(0);
    if (is_pending)
        pthread_cancel(pthread_self());
    CHECK(launch(kernel, NULL));
    pthread_testcancel();
    return "not cancelled";
}

int main(int count, char **words) {
    pthread_t thread;
    size_t free, total;
    void *result;
    is_pending = count > 1 && !strcmp(words[1], "pending");
    use_device(0);
    kernel = kernel_named("step_1us");
    if (is_pending)
        CHECK(cuMemGetInfo_v2(&free, &total));
    pthread_create(&thread, NULL, work, NULL);
    if (!is_pending) {
        usleep(200000);
        pthread_cancel(thread);
    }
    printf("cancelled\n");
    fflush(stdout);
    if (is_pending)
        pthread_join(thread, &result);
    CHECK(launch(kernel, NULL));
    CHECK(cuCtxSynchronize());
    if (!is_pending)
        pthread_join(thread, &result);
    EXPECT(result == PTHREAD_CANCELED);
    printf("ended\n");
    return 0;
}
