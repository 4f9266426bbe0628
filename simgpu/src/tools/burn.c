/* `burn`: a workload in one line. Launches kernels of a given length on given devices and says what it did.
 *
 * A plain driver-API program: it knows nothing of this GPU's inside, takes what libcuda.so.1 the loader finds, and so
 * runs under the hook and on a real driver's names alike.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEVICES 16

/* The few calls of the driver API that it makes; all handles are pointers to it. */
struct driver {
    int (*init)(unsigned);
    int (*device_get)(int *, int);
    int (*retain)(void **, int);
    int (*set_current)(void *);
    int (*load)(void **, const void *);
    int (*get_function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **);
    int (*synchronize)(void);
    int (*allocate)(unsigned long long *, size_t);
    int (*allocate_managed)(unsigned long long *, size_t, unsigned);
};

struct plan {
    char devices[128], name[64];
    double kernel_ms, seconds, pause_ms;
    long count, together, batch;
    double plain_mb, managed_mb;
    bool quiet, per_thread;
};

struct job {
    const struct plan *plan;
    int device;
    void *context, *function;
    long launched;
    int error;
    double took;
};

/* Of kernels that wait for each other all devices launch as many: whoever comes to the next one first decides for the others. */
struct agreement {
    pthread_mutex_t lock;
    long begun;
    bool is_over;
};

static struct driver driver;
static struct agreement agreement = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static bool load_driver(void) {
    static const struct {
        size_t offset;
        const char *name;
    } calls[] = {
        {offsetof(struct driver, init), "cuInit"},
        {offsetof(struct driver, device_get), "cuDeviceGet"},
        {offsetof(struct driver, retain), "cuDevicePrimaryCtxRetain"},
        {offsetof(struct driver, set_current), "cuCtxSetCurrent"},
        {offsetof(struct driver, load), "cuModuleLoadData"},
        {offsetof(struct driver, get_function), "cuModuleGetFunction"},
        {offsetof(struct driver, launch), "cuLaunchKernel"},
        {offsetof(struct driver, synchronize), "cuCtxSynchronize"},
        {offsetof(struct driver, allocate), "cuMemAlloc_v2"},
        {offsetof(struct driver, allocate_managed), "cuMemAllocManaged"},
    };
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "burn: %s; set LD_LIBRARY_PATH to the folder of libcuda.so.1\n", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        /* by dlsym on the handle, as applications do: a preloaded hook sees it */
        void *call = dlsym(library, calls[i].name);
        memcpy((char *)&driver + calls[i].offset, &call, sizeof call);
        if (!call) {
            fprintf(stderr, "burn: this libcuda.so.1 has no %s\n", calls[i].name);
            return false;
        }
    }
    return true;
}

#define TRY(job, expression)                                                                                           \
    do {                                                                                                               \
        (job)->error = (expression);                                                                                   \
        if ((job)->error)                                                                                              \
            return (job)->error;                                                                                       \
    } while (0)

static int set_up(struct job *job) {
    static const char image[] = "SGPU.version 7.0\n.target sm_60\n";
    const struct plan *plan = job->plan;
    int device;
    void *module;
    unsigned long long pointer;
    TRY(job, driver.device_get(&device, job->device));
    TRY(job, driver.retain(&job->context, device));
    TRY(job, driver.set_current(job->context));
    TRY(job, driver.load(&module, image));
    TRY(job, driver.get_function(&job->function, module, plan->name));
    if (plan->plain_mb > 0)
        TRY(job, driver.allocate(&pointer, (size_t)(plan->plain_mb * 1048576)));
    if (plan->managed_mb > 0)
        TRY(job, driver.allocate_managed(&pointer, (size_t)(plan->managed_mb * 1048576), 1u));
    return 0;
}

static void nap(double milliseconds) {
    struct timespec time = {(time_t)(milliseconds / 1e3), (long)(milliseconds * 1e6) % 1000000000};
    if (milliseconds > 0)
        while (nanosleep(&time, &time) != 0 && errno == EINTR) {
        }
}

static bool agree(long launched, bool wants_more) {
    pthread_mutex_lock(&agreement.lock);
    bool is_first = launched >= agreement.begun;
    if (is_first && !wants_more)
        agreement.is_over = true;
    if (is_first && !agreement.is_over)
        agreement.begun = launched + 1;
    bool goes_on = launched < agreement.begun;
    pthread_mutex_unlock(&agreement.lock);
    return goes_on;
}

static bool goes_on(const struct job *job, double began) {
    const struct plan *plan = job->plan;
    if (plan->count > 0)
        return job->launched < plan->count;
    bool wants_more = now() - began < plan->seconds;
    return plan->together > 1 ? agree(job->launched, wants_more) : wants_more;
}

static int run_batch(struct job *job, double began) {
    uint64_t nanoseconds = (uint64_t)(job->plan->kernel_ms * 1e6);
    void *params[] = {&nanoseconds};
    for (long i = 0; i < job->plan->batch && goes_on(job, began); i++) {
        TRY(job, driver.launch(job->function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, NULL, params, NULL));
        job->launched++;
    }
    TRY(job, driver.synchronize());
    return 0;
}

static void *run(void *given) {
    struct job *job = given;
    double began = now();
    if (set_up(job) == 0)
        while (goes_on(job, began) && run_batch(job, began) == 0)
            nap(job->plan->pause_ms);
    job->took = now() - began;
    return NULL;
}

static void usage(FILE *into) {
    fputs("burn: launches kernels and says what it did\n"
          "  --devices 0,1     which devices, each by a thread of its own (default 0)\n"
          "  --kernel-ms 5     how long a kernel lasts (default 5; 0 for none)\n"
          "  --seconds 2       for how long (default 1), or\n"
          "  --count 100       how many kernels a device\n"
          "  --batch 4         launches before each synchronisation (default 1)\n"
          "  --pause-ms 10     rest after each synchronisation, as a program that thinks (default 0)\n"
          "  --together 2      each kernel ends only when that many such kernels run (collectives)\n"
          "  --name step       the kernel's name (its length as a parameter is added to it)\n"
          "  --plain-mb 100    allocate so much with cuMemAlloc first\n"
          "  --managed-mb 100  allocate so much with cuMemAllocManaged first\n"
          "  --touch 25%       kernels touch so much of the managed memory (or 1GB of each allocation)\n"
          "  --quiet           print nothing when all went well\n",
          into);
}

static bool number(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value >= 0;
}

static bool read_number(struct plan *plan, const char *option, const char *text) {
    double value;
    if (!number(text, &value))
        return false;
    const struct {
        const char *option;
        double *real;
        long *whole;
    } options[] = {
        {"--kernel-ms", &plan->kernel_ms, NULL}, {"--seconds", &plan->seconds, NULL},
        {"--pause-ms", &plan->pause_ms, NULL},   {"--plain-mb", &plan->plain_mb, NULL},
        {"--managed-mb", &plan->managed_mb, NULL}, {"--count", NULL, &plan->count},
        {"--batch", NULL, &plan->batch},         {"--together", NULL, &plan->together},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strcmp(option, options[i].option) != 0)
            continue;
        if (options[i].real)
            *options[i].real = value;
        else
            *options[i].whole = (long)value;
        return true;
    }
    return false;
}

static bool read_option(struct plan *plan, const char *option, const char *text) {
    if (strcmp(option, "--devices") == 0)
        return snprintf(plan->devices, sizeof plan->devices, "%s", text) < (int)sizeof plan->devices;
    if (strcmp(option, "--name") == 0)
        return snprintf(plan->name, sizeof plan->name, "%s", text) < (int)sizeof plan->name;
    if (strcmp(option, "--touch") == 0) /* the software GPU reads it at cuInit; a real one ignores it */
        return setenv("SIMGPU_TOUCHED", text, 1) == 0;
    return read_number(plan, option, text);
}

/* The name carries what this GPU needs to know: that the length is the first parameter, or stands in the name. */
static void finish_name(struct plan *plan) {
    char name[64];
    snprintf(name, sizeof name, "%s", plan->name);
    if (plan->together > 1)
        snprintf(plan->name, sizeof plan->name, "%.24s_%.0fns_x%ld", name, plan->kernel_ms * 1e6, plan->together);
    else
        snprintf(plan->name, sizeof plan->name, "%.40s_param", name);
}

static bool read_plan(struct plan *plan, int argc, char **argv) {
    *plan = (struct plan){.devices = "0", .name = "burn", .kernel_ms = 5, .seconds = 1, .batch = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quiet") == 0) {
            plan->quiet = true;
        } else if (i + 1 < argc && read_option(plan, argv[i], argv[i + 1])) {
            i++;
        } else {
            fprintf(stderr, "burn: cannot use '%s'\n", argv[i]);
            usage(stderr);
            return false;
        }
    }
    plan->batch = plan->batch < 1 ? 1 : plan->batch;
    finish_name(plan);
    return true;
}

static int list_devices(const struct plan *plan, struct job *jobs) {
    char copy[128], *rest = NULL;
    int count = 0;
    snprintf(copy, sizeof copy, "%s", plan->devices);
    for (char *part = strtok_r(copy, ",", &rest); part && count < DEVICES; part = strtok_r(NULL, ",", &rest))
        jobs[count++] = (struct job){.plan = plan, .device = atoi(part)};
    return count;
}

int main(int argc, char **argv) {
    struct plan plan;
    struct job jobs[DEVICES];
    pthread_t threads[DEVICES];
    int failed = 0;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    if (!read_plan(&plan, argc, argv) || !load_driver())
        return 2;
    int error = driver.init(0u), count = list_devices(&plan, jobs);
    if (error) {
        fprintf(stderr, "burn: cuInit says %d\n", error);
        return 1;
    }
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, run, &jobs[i]);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        failed |= jobs[i].error;
        if (!plan.quiet || jobs[i].error)
            printf("device=%d launched=%ld kernel_ms=%g seconds=%.3f error=%d\n", jobs[i].device, jobs[i].launched,
                   plan.kernel_ms, jobs[i].took, jobs[i].error);
    }
    return failed ? 1 : 0;
}
