/* The ledger: a page in which each process of the container writes its own numbers and reads the numbers of the others.
 *
 * The rule: the caller holds the lock of memory, except for the functions at the end. */
#ifndef NVSHARE_LEDGER_H
#define NVSHARE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "nvshare_contract.h"

/* LEDGER_OWN_MANAGED: the part of the pageable bytes that only a cap bounds.  What stands at FIELDS is the state of a drain. */
enum field { LEDGER_PAGEABLE, LEDGER_UNPAGEABLE, LEDGER_PEAK, LEDGER_CONTEXT, FIELDS,
             LEDGER_OWN_MANAGED = NVSHARE_SHARED_MEMORY_LEDGER_OWN_MANAGED / sizeof(uint64_t) };

/* `list`: the GPUs of the welcome, in the order of the ledger; our order may differ.  `ledger`: NULL when there is none. */
void ledger_adopt(void *ledger, const char *list, unsigned slot);
void ledger_forget(void);
bool ledger_has(int gpu);
void ledger_publish(int gpu, enum field field, uint64_t value);
/* The sum of a field over all slots, for a GPU that the ledger has. */
uint64_t ledger_sum(int gpu, enum field field);
unsigned ledger_processes(void);

/* A word for each GPU in the own slot, which the other processes of the container read: the state of a drain.  These
 * functions take the lock. */
void ledger_show_drain(int gpu, uint64_t word);
/* How long the process has had work in flight on the GPU, and its longest launch: the daemon reads both. */
void ledger_show_time(int gpu, uint64_t in_flight_ns, uint64_t longest_ns);
unsigned ledger_drains(int gpu, uint64_t *words, unsigned most); /* the others' words; returns how many there are */

#endif
