/* The table of compute capabilities: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". */
#include "card_limits.h"

#include <stddef.h>

#define KIB(count) ((count) * 1024u)
#define MIB(count) ((count) * 1048576u)

static const struct sg_limits LIMITS[] = {
    {6, 0, 2048, 32, KIB(64), KIB(48), 0, MIB(4), 2},
    {7, 0, 2048, 32, KIB(96), KIB(96), 0, MIB(6), 2},
    {7, 5, 1024, 16, KIB(64), KIB(64), 0, MIB(4), 32},
    {8, 0, 2048, 32, KIB(164), KIB(163), 1024, MIB(40), 2},
    {8, 9, 1536, 24, KIB(100), KIB(99), 1024, MIB(48), 64},
    {9, 0, 2048, 32, KIB(228), KIB(227), 1024, MIB(50), 2},
};

const struct sg_limits *sg_limits_of(const struct sg_device_card *card) {
    const struct sg_limits *found = &LIMITS[0];
    for (size_t i = 0; i < sizeof LIMITS / sizeof *LIMITS; i++)
        if (LIMITS[i].major == card->capability_major && LIMITS[i].minor == card->capability_minor)
            found = &LIMITS[i];
    return found;
}
