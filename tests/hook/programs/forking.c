/* Uses the GPU, forks, and the child lives on.  forking idle: the child sleeps; forking exec: it becomes `sleep`;
 * forking first: forks before any use, and both use the GPU. */
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static void work(void) {
    use_device(0);
    for (int i = 0; i < 100; i++)
        CHECK(launch(kernel_named("step_1us"), NULL));
    CHECK(cuCtxSynchronize());
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "idle";
    if (strcmp(how, "first"))
        work();
    pid_t child = fork();
    if (!child && !strcmp(how, "exec"))
        execlp("sleep", "sleep", "20", (char *)NULL);
    if (!child && !strcmp(how, "idle"))
        sleep(20);
    if (!strcmp(how, "first"))
        work();
    if (!child)
        _exit(0);
    printf("%d\n", (int)child);
    fflush(stdout);
    if (!strcmp(how, "first")) {
        int status;
        waitpid(child, &status, 0);
        return status ? 5 : 0;
    }
    pause();
    return 0;
}
