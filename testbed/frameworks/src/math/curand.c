/* cuRAND: its version; generators refuse. */
#include "math/version.h"

VERSION_FUNCTIONS(curand, 10, 4, 2, 10402)
