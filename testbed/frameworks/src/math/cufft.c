/* cuFFT: its version; plans refuse. */
#include "math/version.h"

VERSION_FUNCTIONS(cufft, 12, 2, 0, 12200)
