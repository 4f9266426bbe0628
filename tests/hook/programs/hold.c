/* Allocates pieces of so many MiB until refused or so many are held; prints how many, and holds them until its input ends.
 * hold MIB PIECES [managed|plain] */
#include <unistd.h>

#include "program.h"

int main(int count, char **words) {
    size_t bytes = (size_t)atol(words[1]) << 20;
    long held = 0, most = atol(words[2]);
    CUdeviceptr pointer;
    CUresult result = 0;
    char byte;
    (void)count;
    use_device(0);
    while (held < most && !(result = cuMemAlloc_v2(&pointer, bytes)))
        held++;
    printf("%ld %d\n", held, result);
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}
