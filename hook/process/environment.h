/* What the environment may steer. */
#ifndef NVSHARE_SETTING_H
#define NVSHARE_SETTING_H

#include <stdbool.h>

bool setting_is_shared_socket_believed(int folder); /* in a container: where nobody may write to the sockets folder */
const char *setting_sockets(void); /* the sockets folder */
const char *setting_on_loss(void); /* NULL where it is not said, or not believed */

#endif
