/* The connection to the daemon, and its thread.
 *
 * The rule: this file moves bytes and keeps time; what they mean, the handler knows.  The thread blocks every signal, holds
 * the turns' lock while it handles a line, and never while it waits. */
#define _GNU_SOURCE
#include "daemon/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "nvshare_contract.h"
#include "process/clock.h"
#include "process/environment.h"
#include "process/lock_order.h"
#include "process/log.h"

#define MOST_DESCRIPTORS 4
#define UNSENT_BYTES 65536

static struct {
    const struct daemon_handler *handler;
    int socket, wake;
    bool is_started, is_overrun;
    atomic_bool is_ending;
    int error; /* of the last attempt to connect; 0: it was connected */
    size_t unread, unsent;
    int descriptors[MOST_DESCRIPTORS], descriptor_count;
    uint64_t tried_ns;
    char in[NVSHARE_LINE_LONGEST + 1], out[UNSENT_BYTES];
} self = {.socket = -1, .wake = -1};

/* Something for the thread to do. */
static void wake(void) {
    uint64_t one = 1;
    if (self.wake >= 0 && write(self.wake, &one, sizeof one) < 0)
        return; /* full: it is awake anyway */
}

/* ------------------------------------------------------------------------------------------------ sending */

static void flush_unsent(void) {
    while (self.unsent && self.socket >= 0) {
        ssize_t sent = send(self.socket, self.out, self.unsent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0)
            return; /* full: poll tells when; broken: the next read tells */
        self.unsent -= (size_t)sent;
        memmove(self.out, self.out + sent, self.unsent);
    }
}

/* A daemon that reads nothing for so long is not told half of what happened: the connection is made anew, with a hello that
 * says all that holds. */
void listener_send(const char *line, size_t length) {
    if (self.socket < 0 || self.is_overrun)
        return;
    if (self.unsent + length > sizeof self.out) {
        self.is_overrun = true;
        say("the scheduler has not read %zu bytes that were sent to it: connecting anew", self.unsent);
        wake();
        return;
    }
    memcpy(self.out + self.unsent, line, length);
    self.unsent += length;
    flush_unsent();
    if (self.unsent)
        wake();
}

/* ------------------------------------------------------------------------------------------------ connecting */

/* Through the folder's descriptor: a socket's address holds 107 bytes, a path may be longer. */
static int connect_below(int folder, const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", folder, name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof address))
        return fd;
    self.error = errno;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int connect_to_daemon(void) {
    int folder = open(environment_sockets(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    self.error = folder < 0 ? errno : 0;
    if (folder < 0)
        return -1;
    int fd = connect_below(folder, NVSHARE_PATHS_OWN_FOLDER "/" NVSHARE_PATHS_SOCKET_NAME);
    if (fd < 0 && environment_is_shared_socket_believed(folder))
        fd = connect_below(folder, NVSHARE_PATHS_SOCKET_NAME);
    close(folder);
    return fd;
}

static void drop_descriptors(void) {
    while (self.descriptor_count)
        close(self.descriptors[--self.descriptor_count]);
}

static void hang_up(void) {
    close(self.socket);
    self.socket = -1;
    self.unread = self.unsent = 0;
    self.is_overrun = false;
    drop_descriptors();
    self.handler->connected(false, now_ns());
}

const char *listener_trouble(void) {
    return self.socket >= 0 ? "it is connected, and says nothing" : self.error ? strerror(self.error) : "no connection lasts";
}

static void try_to_connect(void) {
    char hello[NVSHARE_LINE_LONGEST];
    size_t length = self.handler->hello(hello, sizeof hello);
    self.socket = length ? connect_to_daemon() : -1;
    if (self.socket < 0)
        return;
    self.handler->connected(true, now_ns());
    listener_send(hello, length);
}

/* ------------------------------------------------------------------------------------------------ reading */

static void keep_descriptors(struct msghdr *message) {
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            if (self.descriptor_count < MOST_DESCRIPTORS)
                self.descriptors[self.descriptor_count++] = fd;
            else
                close(fd);
        }
    }
}

static ssize_t receive(void) {
    union {
        char bytes[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec into = {self.in + self.unread, NVSHARE_LINE_LONGEST - self.unread};
    struct msghdr message = {
        .msg_iov = &into, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(self.socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got > 0)
        keep_descriptors(&message);
    return got;
}

/* Handles the whole lines that are there; false: hang up. */
static bool hear_lines(void) {
    char *at = self.in, *end = self.in + self.unread, *newline;
    while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
        struct line line;
        *newline = 0;
        bool is_good = line_read(at, &line) && self.handler->hear(&line, self.descriptors, self.descriptor_count);
        drop_descriptors();
        if (!is_good)
            return false;
        at = newline + 1;
    }
    self.unread = (size_t)(end - at);
    memmove(self.in, at, self.unread);
    return self.unread < NVSHARE_LINE_LONGEST;
}

static void read_socket(void) {
    for (;;) {
        ssize_t got = receive();
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0)
            break;
        self.unread += (size_t)got;
        if (!hear_lines())
            break;
    }
    hang_up();
}

/* ------------------------------------------------------------------------------------------------ the thread */

static uint64_t until_retry(uint64_t now) {
    uint64_t next = self.tried_ns + NVSHARE_WIRE_RETRY_MS * MS;
    if (self.socket >= 0 || now < next)
        return self.socket >= 0 ? UINT64_MAX : next - now;
    self.tried_ns = now;
    try_to_connect();
    return NVSHARE_WIRE_RETRY_MS * MS;
}

static void wait_for_something(struct pollfd fds[2], uint64_t nanoseconds) {
    struct timespec limit = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
    ppoll(fds, 2, nanoseconds == UINT64_MAX ? NULL : &limit, NULL);
    uint64_t ignored;
    if ((fds[0].revents & POLLIN) && read(self.wake, &ignored, sizeof ignored) < 0)
        return;
}

static void *listen_to_daemon(void *argument) {
    (void)argument;
    for (;;) {
        lock_take(LOCK_TURNS);
        uint64_t retry = until_retry(now_ns());
        if (self.socket >= 0) {
            flush_unsent();
            if (self.is_overrun)
                hang_up();
            else
                read_socket();
            if (self.socket < 0)
                retry = until_retry(now_ns()); /* it was lost just now: first at once */
        }
        uint64_t pause = self.is_ending ? UINT64_MAX : self.handler->tick(now_ns());
        struct pollfd fds[2] = {{.fd = self.wake, .events = POLLIN},
                                {.fd = self.socket, .events = (short)(POLLIN | (self.unsent ? POLLOUT : 0))}};
        lock_release(LOCK_TURNS);
        wait_for_something(fds, pause < retry ? pause : retry);
    }
    return NULL;
}

bool listener_is_ending(void) { return atomic_load(&self.is_ending); }

/* The driver's own handlers come after this one, since they were registered first: a question to it would come too late. */
static void stop_asking(void) {
    bool is_locked = lock_take_at_exit(LOCK_TURNS);
    atomic_store(&self.is_ending, true);
    if (is_locked)
        lock_release(LOCK_TURNS);
}

bool listener_start(const struct daemon_handler *handler) {
    static bool is_registered;
    lock_take(LOCK_LISTENER_START);
    if (!self.is_started) {
        pthread_t thread;
        self.handler = handler;
        is_registered = is_registered || !atexit(stop_asking);
        sigset_t all, before;
        sigfillset(&all);
        self.wake = self.wake >= 0 ? self.wake : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        self.is_started = !pthread_create(&thread, NULL, listen_to_daemon, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (self.is_started)
            pthread_detach(thread);
    }
    lock_release(LOCK_LISTENER_START);
    return self.is_started;
}

/* The child has no listener, and must not keep the parent's connection alive. */
void listener_after_fork(void) {
    if (self.socket >= 0)
        close(self.socket);
    if (self.wake >= 0)
        close(self.wake);
    drop_descriptors();
    self.socket = self.wake = -1;
    self.unread = self.unsent = 0;
    self.is_started = self.is_overrun = false;
    self.tried_ns = 0;
}
