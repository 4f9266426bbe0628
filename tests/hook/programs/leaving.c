/* Ends while another thread stands at the closed gate.  leaving return|exit|_exit|thread */
#include <pthread.h>
#include <unistd.h>

#include "program.h"

static void *stand(void *ignored) {
    (void)ignored;
    use_device(0);
    launch(kernel_named("step_1us"), NULL);
    return NULL;
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "return";
    pthread_t thread;
    pthread_create(&thread, NULL, stand, NULL);
    usleep(200000);
    if (!strcmp(how, "exit"))
        exit(0);
    if (!strcmp(how, "_exit"))
        _exit(0);
    if (!strcmp(how, "thread")) {
        pthread_cancel(thread); /* no cancellation point is held for ever by us alone: the gate sleeps in the kernel */
        exit(0);
    }
    return 0;
}
