/* A program without CUDA: threads, a fork, a look-up. Says whether it can see any of the driver; it should not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void *nothing(void *argument) { return argument; }

int main(void) {
    pthread_t thread;
    int status = 0;
    pthread_create(&thread, NULL, nothing, NULL);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (!child)
        _exit(0);
    waitpid(child, &status, 0);
    printf("%d %d %d\n", status, dlsym(RTLD_DEFAULT, "getpid") != NULL, dlsym(RTLD_DEFAULT, "cuLaunchKernel") != NULL);
    return 0;
}
