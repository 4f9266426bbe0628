/* CUPTI: its version; a profiler that asks for more is refused. */
#include <stdint.h>

int cuptiGetVersion(uint32_t *version);

int cuptiGetVersion(uint32_t *version) {
    *version = 130200;
    return 0;
}
