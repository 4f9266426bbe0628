/* A program that no loader touches: the driver is linked into it, so that neither LD_PRELOAD nor /etc/ld.so.preload is read.
 * It gives its GPU kernels of 5 ms until it is ended. */
#include <stddef.h>

int cuInit(unsigned);
int cuDeviceGet(int *, int);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuModuleLoadData(void **, const void *);
int cuModuleGetFunction(void **, void *, const char *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuCtxSynchronize(void);

int main(void) {
    static const char image[] = "SGPU.version 7.0\n.target sm_60\n";
    void *context, *module, *function;
    int device;
    int error = cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
                cuCtxSetCurrent(context) || cuModuleLoadData(&module, image) ||
                cuModuleGetFunction(&function, module, "train_5ms");
    while (!error)
        error = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) || cuCtxSynchronize();
    return 1;
}
