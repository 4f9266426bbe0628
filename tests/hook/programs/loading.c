/* A thread asks NVML while another loads a library whose constructor looks for a function of the driver, or forks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int (*by_index)(unsigned int, void **), (*memory)(void *, void *);

static void *sample(void *ignored) {
    void *device;
    unsigned long long info[4];
    (void)ignored;
    usleep(300000); /* the constructor holds the loader's lock by now */
    printf("%d\n", by_index(0, &device) || memory(device, info));
    return NULL;
}

int main(int count, char **words) {
    pthread_t sampler;
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void) = nvml ? (int (*)(void))dlsym(nvml, "nvmlInit_v2") : NULL;
    if (count < 2 || !init || init())
        return 3;
    by_index = (int (*)(unsigned int, void **))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
    memory = (int (*)(void *, void *))dlsym(nvml, "nvmlDeviceGetMemoryInfo");
    pthread_create(&sampler, NULL, sample, NULL);
    if (!dlopen(words[1], RTLD_NOW))
        return 4;
    pthread_join(sampler, NULL);
    return 0;
}
