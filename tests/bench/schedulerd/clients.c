/* Clients that hand a GPU on as fast as they can: whoever is granted says `done` at once and wants again. Prints the
 * microseconds from each `done` to the next `grant`, one a line. Usage: clients SOCKET CLIENTS HANDOFFS [hello] */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

static void say(int client, const char *text) {
    if (write(client, text, strlen(text)) < 0) {
        perror("write");
        exit(1);
    }
}

static int join(const char *path, int number, int hello) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char text[4096], rights[256];
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (connect(client, (struct sockaddr *)&address, sizeof address)) {
        perror("connect");
        exit(1);
    }
    if (hello) {
        struct iovec piece = {text, sizeof text};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = rights, .msg_controllen = sizeof rights};
        snprintf(text, sizeof text, "hello v=1 pid=%d gpus=GPU-1 container=c%d\n", number + 1, number);
        say(client, text);
        if (recvmsg(client, &message, MSG_CMSG_CLOEXEC) <= 0) {
            perror("welcome");
            exit(1);
        }
        for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
            int fds[2];
            memcpy(fds, CMSG_DATA(one), sizeof fds);
            close(fds[0]);
            close(fds[1]);
        }
    }
    return client;
}

int main(int count, char **words) {
    if (count < 4) {
        return 2;
    }
    int clients = atoi(words[2]), handoffs = atoi(words[3]), poll = epoll_create1(EPOLL_CLOEXEC), taken = 0;
    double *figures = calloc((size_t)handoffs, sizeof *figures), said = 0;
    struct epoll_event ready[64];
    for (int i = 0; i < clients; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = join(words[1], i, count > 4)};
        epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
        say(event.data.fd, "want gpus=GPU-1\n");
    }
    while (taken < handoffs) {
        int many = epoll_wait(poll, ready, 64, 20000);
        if (many <= 0) {
            fprintf(stderr, "nobody was granted anything for 20 s after %d hand-offs\n", taken);
            return 1;
        }
        double heard = now();
        for (int i = 0; i < many && taken < handoffs; i++) {
            char text[4096], answer[128], *turn;
            ssize_t size = read(ready[i].data.fd, text, sizeof text - 1);
            text[size > 0 ? size : 0] = 0;
            if (strncmp(text, "grant ", 6) || !(turn = strstr(text, "turn="))) {
                continue;
            }
            if (said > 0) {
                figures[taken++] = heard - said;
            }
            snprintf(answer, sizeof answer, "done %.*s reason=idle\n", (int)strcspn(turn, " \n"), turn);
            said = now();
            say(ready[i].data.fd, answer);
            say(ready[i].data.fd, "want gpus=GPU-1\n");
        }
    }
    for (int i = 0; i < handoffs; i++) {
        printf("%.2f\n", figures[i]);
    }
    return 0;
}
