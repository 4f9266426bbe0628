/* The yardstick of a hand-off: the least that any daemon could do. `d…` from a client sends a `grant` to the next one in
 * line, `w…` puts a client into the line. One epoll loop, no parsing, no policy, no books. Usage: echo SOCKET */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST = 4096 };
static int line_of[MOST], head, tail, holder = -1;

static void grant_next(void) {
    static const char grant[] = "grant turn=0000000a.1 gpus=GPU-1 quantum_ms=100 beside=0 waiting=1\n";
    holder = -1;
    if (head == tail) {
        return;
    }
    holder = line_of[head++ % MOST];
    if (write(holder, grant, sizeof grant - 1) < 0) {
        perror("write");
    }
}

static void serve(int client) {
    char text[4096];
    ssize_t size = read(client, text, sizeof text);
    if (size <= 0) {
        close(client);
        return;
    }
    for (char *line = text; line && line < text + size; line = memchr(line, '\n', (size_t)(text + size - line))) {
        line += *line == '\n';
        if (line < text + size && *line == 'd') {
            grant_next();
        } else if (line < text + size && *line == 'w') {
            line_of[tail++ % MOST] = client;
            if (holder < 0) {
                grant_next();
            }
        }
    }
}

int main(int count, char **words) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), poll = epoll_create1(EPOLL_CLOEXEC);
    if (count != 2 || strlen(words[1]) >= sizeof address.sun_path) {
        return 2;
    }
    strcpy(address.sun_path, words[1]);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 512)) {
        perror("listen");
        return 1;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[64];
    epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int many = epoll_wait(poll, ready, 64, -1);
        for (int i = 0; i < many; i++) {
            if (ready[i].data.fd == listener) {
                event.data.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
            } else {
                serve(ready[i].data.fd);
            }
        }
    }
}
