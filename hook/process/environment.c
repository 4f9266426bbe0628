/* What the environment may steer, and where it is believed.
 *
 * The rule: only stand-alone.  Where the allocation's own folder is mounted, whoever runs in the container could else point the
 * hook at a folder without a scheduler and go on without turns. */
#include "process/environment.h"

#include <stdlib.h>
#include <unistd.h>

#include "nvshare_contract.h"

static bool is_allocated(void) {
    return !access(NVSHARE_PATHS_CONTAINER_SOCKETS "/" NVSHARE_PATHS_OWN_FOLDER, F_OK);
}

static const char *believed(const char *name) {
    const char *set = getenv(name);
    return set && *set && !is_allocated() ? set : NULL;
}

const char *environment_sockets(void) {
    const char *set = believed(NVSHARE_NAMES_ENV_SOCKETS);
    return set ? set : NVSHARE_PATHS_CONTAINER_SOCKETS;
}

const char *environment_on_loss(void) { return believed(NVSHARE_NAMES_ENV_ON_LOSS); }

/* Else a program could wait there for the scheduler to be restarted, and be it. */
bool environment_is_shared_socket_believed(int folder) { return !is_allocated() || faccessat(folder, ".", W_OK, 0); }
