/* The gate's state: which turn each GPU is in, and whether what threads have cached is still true. */
#include "gate/gate.h"

struct gpu gpus[NVSHARE_SHARED_MEMORY_MOST_GPUS];
_Atomic uint64_t generation = 1;
