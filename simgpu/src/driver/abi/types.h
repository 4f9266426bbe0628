/* The types of the driver API, in our own minimal declarations.
 *
 * The rule: only the parts that the ABI needs are declared. A test compares sizes, offsets and prototypes with NVIDIA's
 * headers of CUDA 12 and 13. When SIMGPU_WITH_CUDA_H is defined, those headers give the types instead.
 */
#ifndef SIMGPU_TYPES_H
#define SIMGPU_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#ifndef SIMGPU_WITH_CUDA_H
#include "cuda_types.h"
#endif

#endif
