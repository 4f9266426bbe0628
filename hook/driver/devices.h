/* The container's GPUs, by UUID, in the order of the daemon's first welcome. */
#ifndef NVSHARE_DEVICES_H
#define NVSHARE_DEVICES_H

#include "driver/driver.h"
#include "nvshare_contract.h"

#define UUID_TEXT 48 /* GPU- or MIG-, 36 characters, and room */

/* The UUIDs of the devices that this process sees, joined by commas; 0 when the driver does not answer. */
int devices_list_visible(char *into, size_t size);
void devices_look_up(void); /* finds what that needs: the listener asks under a lock, where the loader must not be waited for */
/* Takes over the list of a welcome; returns how many GPUs the container has. */
int devices_adopt(const char *list);
/* How many GPUs a welcome lists, and where in it each of our places is; negative: not there. */
int devices_columns(const char *list, int columns[NVSHARE_SHARED_MEMORY_MOST_GPUS]);
int devices_count(void);
const char *devices_uuid(int place);
/* The place of a UUID, -1 when it is not the container's. GPU- and MIG- of the same number are the same. */
int devices_find(const char *uuid);
int devices_place(CUdevice device);
CUdevice devices_ordinal(int place);
void devices_forget(void);

#endif
