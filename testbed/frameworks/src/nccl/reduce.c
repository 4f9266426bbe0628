#include "reduce.h"

#include <stdint.h>

static const size_t BYTES[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

size_t type_bytes(int type) {
    return type >= 0 && type < TYPES ? BYTES[type] : 0;
}

/* A loop of one type. */
#define REDUCE(name, c_type)                                                                                           \
    static void reduce_##name(c_type *into, const c_type *from, size_t count, int operation) {                         \
        for (size_t i = 0; i < count; i++) {                                                                           \
            c_type a = into[i], b = from[i];                                                                           \
            into[i] = (c_type)(operation == PROD  ? a * b                                                              \
                               : operation == MAX ? (a > b ? a : b)                                                    \
                               : operation == MIN ? (a < b ? a : b)                                                    \
                                                  : a + b);                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    static void divide_##name(c_type *into, size_t count, int ranks) {                                                 \
        for (size_t i = 0; i < count; i++)                                                                             \
            into[i] = (c_type)(into[i] / (c_type)ranks);                                                               \
    }

REDUCE(int8, int8_t)
REDUCE(uint8, uint8_t)
REDUCE(int32, int32_t)
REDUCE(uint32, uint32_t)
REDUCE(int64, int64_t)
REDUCE(uint64, uint64_t)
REDUCE(float, float)
REDUCE(double, double)

typedef void (*reducer)(void *, const void *, size_t, int);
typedef void (*divider)(void *, size_t, int);

static const reducer REDUCERS[TYPES] = {
    [INT8] = (reducer)(void *)reduce_int8,     [UINT8] = (reducer)(void *)reduce_uint8,
    [INT32] = (reducer)(void *)reduce_int32,   [UINT32] = (reducer)(void *)reduce_uint32,
    [INT64] = (reducer)(void *)reduce_int64,   [UINT64] = (reducer)(void *)reduce_uint64,
    [FLOAT] = (reducer)(void *)reduce_float,   [DOUBLE] = (reducer)(void *)reduce_double,
};
static const divider DIVIDERS[TYPES] = {
    [INT8] = (divider)(void *)divide_int8,     [UINT8] = (divider)(void *)divide_uint8,
    [INT32] = (divider)(void *)divide_int32,   [UINT32] = (divider)(void *)divide_uint32,
    [INT64] = (divider)(void *)divide_int64,   [UINT64] = (divider)(void *)divide_uint64,
    [FLOAT] = (divider)(void *)divide_float,   [DOUBLE] = (divider)(void *)divide_double,
};

void reduce(void *into, const void *from, size_t count, int type, int operation) {
    if (REDUCERS[type])
        REDUCERS[type](into, from, count, operation);
}

void divide(void *into, size_t count, int type, int ranks) {
    if (DIVIDERS[type])
        DIVIDERS[type](into, count, ranks);
}
