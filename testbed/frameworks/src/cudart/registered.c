/* What the compiler's start-up code registers: fat binaries, the host functions that stand for kernels, variables.
 *
 * A fat binary becomes a library of the driver when the first of its kernels is asked for, as in NVIDIA's runtime
 * (lazy loading).  PyTorch registers some hundred thousand kernels, so they stand in a hash table.
 */
#include <pthread.h>
#include <stdlib.h>

#include "runtime.h"

#define MOST_DEVICES 64

struct binary {
    const void *image;
    CUlibrary library;
};

struct entry {
    const void *host; /* NULL: free */
    struct binary *binary;
    const char *name;
    CUkernel kernel;               /* of a function, once it was asked for */
    CUdeviceptr *address; /* of a variable, a device each, once it was asked for */
    size_t bytes;
};

struct wrapper {
    int magic, version;
    const void *data;
    void *file;
};

#define WRAPPER 0x466243B1

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *table;
static size_t capacity, count;

static size_t place_of(const struct entry *entries, size_t size, const void *host) {
    size_t at = ((uintptr_t)host >> 4) * 0x9E3779B97F4A7C15ull % size;
    while (entries[at].host && entries[at].host != host)
        at = (at + 1) % size;
    return at;
}

static bool grow(void) {
    size_t size = capacity ? capacity * 2 : 1 << 16;
    struct entry *larger = calloc(size, sizeof *larger);
    if (!larger)
        return false;
    for (size_t i = 0; i < capacity; i++)
        if (table[i].host)
            larger[place_of(larger, size, table[i].host)] = table[i];
    free(table);
    table = larger;
    capacity = size;
    return true;
}

static void add(struct entry entry) {
    pthread_mutex_lock(&lock);
    if (count * 2 < capacity || grow()) {
        struct entry *place = &table[place_of(table, capacity, entry.host)];
        count += !place->host;
        *place = entry;
    }
    pthread_mutex_unlock(&lock);
}

/* With the lock held. */
static struct entry *find(const void *host) {
    if (!capacity)
        return NULL;
    struct entry *entry = &table[place_of(table, capacity, host)];
    return entry->host ? entry : NULL;
}

static CUresult load(struct binary *binary) {
    if (binary->library)
        return CUDA_SUCCESS;
    return driver.cuLibraryLoadData(&binary->library, binary->image, NULL, NULL, 0, NULL, NULL, 0);
}

cudaError_t runtime_kernel(const void *function, CUfunction *kernel) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct entry *entry = find(function);
    if (!entry) {
        *kernel = (CUfunction)(uintptr_t)function; /* a cudaKernel_t */
    } else if (!entry->kernel) {
        result = load(entry->binary);
        if (result == CUDA_SUCCESS)
            result = driver.cuLibraryGetKernel(&entry->kernel, entry->binary->library, entry->name);
    }
    if (entry)
        *kernel = (CUfunction)entry->kernel;
    pthread_mutex_unlock(&lock);
    return runtime_done(result);
}

static CUresult find_variable(struct entry *entry, int device) {
    size_t bytes;
    CUresult result = load(entry->binary);
    if (result == CUDA_SUCCESS && !entry->address)
        entry->address = calloc(MOST_DEVICES, sizeof *entry->address);
    if (result == CUDA_SUCCESS && !entry->address)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS && !entry->address[device])
        result = driver.cuLibraryGetGlobal(&entry->address[device], &bytes, entry->binary->library, entry->name);
    return result;
}

cudaError_t runtime_symbol(const void *symbol, CUdeviceptr *address, size_t *bytes) {
    CUdevice device;
    cudaError_t entered = runtime_enter();
    if (entered != cudaSuccess)
        return entered;
    CUresult result = driver.cuCtxGetDevice(&device);
    pthread_mutex_lock(&lock);
    struct entry *entry = find(symbol);
    if (!entry)
        result = (CUresult)cudaErrorInvalidSymbol;
    if (result == CUDA_SUCCESS)
        result = find_variable(entry, device);
    if (result == CUDA_SUCCESS) {
        *address = entry->address[device];
        if (bytes)
            *bytes = entry->bytes;
    }
    pthread_mutex_unlock(&lock);
    return runtime_done(result);
}

/* ---- the compiler's entry points (crt/host_runtime.h) */

void **CUDARTAPI __cudaRegisterFatBinary(void *given);
void CUDARTAPI __cudaRegisterFatBinaryEnd(void **handle);
void CUDARTAPI __cudaUnregisterFatBinary(void **handle);
void CUDARTAPI __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int thread_limit,
                                      void *thread, void *block, dim3 *block_size, dim3 *grid_size, int *warp_size);
void CUDARTAPI __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int is_extern, size_t bytes,
                                 int is_constant, int is_global);
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *kernel, const void *host);
char CUDARTAPI __cudaInitModule(void **handle);

void **CUDARTAPI __cudaRegisterFatBinary(void *given) {
    const struct wrapper *wrapper = given;
    struct binary *binary = calloc(1, sizeof *binary);
    if (binary)
        binary->image = wrapper->magic == WRAPPER ? wrapper->data : given;
    return (void **)binary;
}

void CUDARTAPI __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}

/* Called while the process exits, when the driver may be gone: nothing is taken back. */
void CUDARTAPI __cudaUnregisterFatBinary(void **handle) {
    (void)handle;
}

void CUDARTAPI __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int thread_limit,
                                      void *thread, void *block, dim3 *block_size, dim3 *grid_size, int *warp_size) {
    (void)device, (void)thread_limit, (void)thread, (void)block, (void)block_size, (void)grid_size, (void)warp_size;
    if (handle)
        add((struct entry){.host = host, .binary = (struct binary *)(void *)handle, .name = name});
}

void CUDARTAPI __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int is_extern, size_t bytes,
                                 int is_constant, int is_global) {
    (void)device, (void)is_extern, (void)is_constant, (void)is_global;
    if (handle)
        add((struct entry){.host = host, .binary = (struct binary *)(void *)handle, .name = name, .bytes = bytes});
}

/* Called from static initialisers of the first launch: nothing of the driver is needed to name the kernel. */
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *kernel, const void *host) {
    *kernel = (cudaKernel_t)(uintptr_t)host;
    return cudaSuccess;
}

char CUDARTAPI __cudaInitModule(void **handle) {
    (void)handle;
    return 1;
}
