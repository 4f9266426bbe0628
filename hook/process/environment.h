/* The environment variables that the hook reads, and whether it believes them. */
#ifndef NVSHARE_ENVIRONMENT_H
#define NVSHARE_ENVIRONMENT_H

#include <stdbool.h>

bool environment_is_shared_socket_believed(int folder); /* in a container: only when no program may write to the sockets folder */
const char *environment_sockets(void); /* the sockets folder */
const char *environment_on_loss(void); /* NULL when it is not set, or not believed */

#endif
