/* Calls the driver after its exit handler has run: ends with the code that the call answered. */
#include <stdlib.h>
#include <unistd.h>

#include "../../../simgpu/src/driver/abi/api.h"

/* Registered before cuInit, so it runs after the driver's own handler. */
static void ask(void) {
    int count;
    _exit((int)cuDeviceGetCount(&count));
}

int main(void) {
    atexit(ask);
    return cuInit(0) ? 99 : 0;
}
