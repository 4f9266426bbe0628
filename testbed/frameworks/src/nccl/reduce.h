/* Arithmetic on small messages: what a reduction of NCCL's does with two vectors. */
#ifndef STANDIN_NCCL_REDUCE_H
#define STANDIN_NCCL_REDUCE_H

#include <stddef.h>

/* ncclDataType_t and ncclRedOp_t of nccl.h */
enum type { INT8, UINT8, INT32, UINT32, INT64, UINT64, HALF, FLOAT, DOUBLE, BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2, TYPES };
enum operation { SUM, PROD, MAX, MIN, AVG };

/* 0 for a type that does not exist. */
size_t type_bytes(int type);

/* into = into (operation) from; types of 16 and 8 bits are left as they are. */
void reduce(void *into, const void *from, size_t count, int type, int operation);

/* The second half of an average. */
void divide(void *into, size_t count, int type, int ranks);

#endif
