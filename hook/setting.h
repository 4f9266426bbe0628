/* What the environment may steer. */
#ifndef NVSHARE_SETTING_H
#define NVSHARE_SETTING_H

const char *setting_sockets(void); /* the sockets folder */
const char *setting_on_loss(void); /* NULL where it is not said, or not believed */

#endif
