/* The page in which each process of the container keeps its own numbers, and reads the others'.  Under memory's lock. */
#ifndef NVSHARE_LEDGER_H
#define NVSHARE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

enum field { LEDGER_PAGEABLE, LEDGER_UNPAGEABLE, LEDGER_PEAK, LEDGER_CONTEXT, FIELDS };

/* `list`: the welcome's GPUs, whose order the ledger has; ours may be another.  `ledger` is NULL where there is none. */
void ledger_adopt(void *ledger, const char *list, unsigned slot);
void ledger_forget(void);
bool ledger_has(int gpu);
void ledger_publish(int gpu, enum field field, uint64_t value);
/* Over all slots, of a GPU that it has. */
uint64_t ledger_sum(int gpu, enum field first, enum field second);
unsigned ledger_processes(void);

/* A word a GPU of the own slot that the container's other processes read: how far a drain is.  These two take the lock. */
void ledger_show_drain(int gpu, uint64_t word);
unsigned ledger_drains(int gpu, uint64_t *words, unsigned most); /* the others' words; returns how many there are */

#endif
