/* The GPUs of the container, by UUID.
 *
 * The rule: they stand in the order of the daemon's first welcome, and a GPU's place never changes. */
#ifndef NVSHARE_DEVICES_H
#define NVSHARE_DEVICES_H

#include <stdbool.h>

#include "driver/driver.h"
#include "nvshare_contract.h"

#define UUID_TEXT 48 /* GPU- or MIG-, 36 characters, and room */

/* The devices that this process sees: lists joined by commas, in the same order.  A size is 0 where it is not told. */
struct visible {
    char uuids[NVSHARE_SHARED_MEMORY_MOST_GPUS * UUID_TEXT], bytes[NVSHARE_SHARED_MEMORY_MOST_GPUS * 16];
};
/* NULL when the driver does not answer.  What it has answered once stays: after that it need not be asked.  The caller holds
 * the lock of the turns. */
const struct visible *devices_list_visible(bool may_ask);
/* Finds the functions for devices_list_visible, which the listener calls under a lock: it must not wait for the loader. */
void devices_look_up(void);
/* Takes over the list of a welcome; returns the number of GPUs of the container. */
int devices_adopt(const char *list);
/* Returns how many GPUs a welcome lists, and fills in the position of each of our GPUs in it; negative: not listed. */
int devices_columns(const char *list, int columns[NVSHARE_SHARED_MEMORY_MOST_GPUS]);
int devices_count(void);
const char *devices_uuid(int place);
/* The place of a UUID; -1 when the container does not have it.  GPU- and MIG- with the same number are the same. */
int devices_find(const char *uuid);
int devices_place(CUdevice device);
CUdevice devices_ordinal(int place);
void devices_forget(void);

#endif
