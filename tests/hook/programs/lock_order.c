/* Takes two of the hook's locks in the order given: built with hook/process, not under the hook.
 * lock_order FIRST SECOND [wait]: with `wait` it waits for a condition with the second, both held. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/lock_order.h"

#define TEXT(name, kind) #name,
static const char *const lock_names[] = {LOCKS_IN_ORDER(TEXT)};

static enum lock named(const char *name) {
    for (int lock = 0; lock < LOCK_COUNT; lock++)
        if (!strcmp(lock_names[lock], name))
            return (enum lock)lock;
    exit(2);
}

int main(int count, char **words) {
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    enum lock first = named(words[1]), second = named(words[2]);
    lock_take(first);
    lock_take(second);
    if (count > 3)
        lock_wait(second, &never);
    lock_release(second);
    lock_release(first);
    lock_take(first); /* what was let go may be taken again */
    lock_release(first);
    puts("taken");
    return 0;
}
