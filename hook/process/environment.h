/* What the environment may steer. */
#ifndef NVSHARE_ENVIRONMENT_H
#define NVSHARE_ENVIRONMENT_H

#include <stdbool.h>

bool environment_is_shared_socket_believed(int folder); /* in a container: where nobody may write to the sockets folder */
const char *environment_sockets(void); /* the sockets folder */
const char *environment_on_loss(void); /* NULL where it is not said, or not believed */

#endif
