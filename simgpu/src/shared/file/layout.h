/* The layout of the shared file, which all processes on the machine map.
 *
 * The rule: it has only plain structs of fixed size and offsets in the header, no pointers.  The mutable state (`sg_core`
 * with its contexts) exists twice.  A transaction works on the copy that is not active and flips one word.  So a process
 * that is killed at any instruction leaves the last whole state.  `testbed/gpu_record.py` reads the same bytes.
 */
#ifndef SIMGPU_LAYOUT_H
#define SIMGPU_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SG_MAGIC 0x3155504753424731ULL
#define SG_VERSION 3u

#define SG_DEVICES 16
#define SG_SLOTS 256
#define SG_CONTEXTS 256
#define SG_CHANNELS 32
#define SG_RING 1024
#define SG_SPANS 8
#define SG_GROUPS 128
#define SG_EVENTS 256
#define SG_CAST 65536
#define SG_LABEL 64

/* One physical device, as configured when the file was made. */
struct sg_device_card {
    char name[64];
    uint8_t uuid[16];
    uint64_t memory_bytes;
    uint32_t capability_major, capability_minor;
    uint32_t multiprocessors, clock_khz;
    uint32_t memory_clock_khz, bus_bits;
    uint32_t pci_bus, pci_device_id;
    int32_t numa_node;
    uint32_t power_limit_mw, idle_temperature, mig;
};

/* The physics. They are equal for all processes, because they stand in the file. */
struct sg_physics {
    uint64_t slice_ns, switch_ns;
    uint64_t overhead_bytes, page_bytes_per_s, copy_bytes_per_s, pass_ns;
    double speed;
    uint32_t overlap, reserved;
    uint64_t record_entries;
};

struct sg_header {
    uint64_t magic;
    uint32_t version, devices;
    uint64_t file_bytes, checksum;
    uint64_t created_monotonic_ns;
    char boot_id[40];
    uint64_t at_cores, core_bytes, at_contexts, context_bytes, at_control, at_slots, at_tails, at_rings, at_cast;
    uint64_t at_intervals, at_residency;
    struct sg_physics physics;
    struct sg_device_card card[SG_DEVICES];
};

enum sg_kind {
    SG_KERNEL = 1,   /* takes the device for length_ns */
    SG_MARK = 2,     /* an event: takes no time */
    SG_WAIT = 3,     /* until another channel has passed `sequence` */
    SG_HOST = 4,     /* until the owner has run its host function */
    SG_TOGETHER = 5, /* a kernel that ends only when all partners of its group have begun */
    SG_FETCH = 6,    /* brings managed bytes in (prefetch); takes the device while it pages */
    SG_COPY = 7,     /* a copy: takes the device for length_ns, and while the managed bytes that it touches page in */
};

enum sg_op_flags { SG_OP_LEGACY = 1, SG_OP_BLOCKING = 2 };

struct sg_op {
    uint64_t submit_ns, length_ns;
    uint32_t kind, flags;
    /* WAIT: channel and sequence; TOGETHER: group key and size; FETCH: bytes; COPY: managed bytes, and how many of them are
     * touched for the first time */
    uint64_t target, sequence;
    uint64_t order; /* of submission in the context: the legacy stream's barrier */
    _Atomic uint64_t done_ns;
    int32_t priority;
    _Atomic uint32_t signalled;
};

/* How far the device has come in one queue of a context. */
struct sg_channel {
    uint64_t head;
    double left_ns;
    uint64_t goal; /* TOGETHER: the number of arrivals in the group that ends it; 0 before it has begun */
    uint32_t begun, reserved;
};

/* Managed bytes last touched at about the same time. */
struct sg_span {
    double bytes;
    uint64_t touched_ns;
};

struct sg_context {
    uint32_t serial, owner; /* serial 0: free */
    uint32_t device, channels;
    uint64_t plain_bytes;
    double managed_bytes, virgin_bytes;
    double paged_bytes;
    double said_resident;
    uint64_t busy_ns, kernels;
    uint64_t checked_ns;
    uint32_t spans, reserved;
    struct sg_span span[SG_SPANS];
    struct sg_channel channel[SG_CHANNELS];
};

struct sg_interval {
    uint64_t start_ns, end_ns;
    uint32_t serial, kernels;
    uint64_t paged_bytes;
};

struct sg_residency {
    uint64_t at_ns;
    uint32_t serial, device;
    uint64_t resident_bytes, managed_bytes, plain_bytes;
};

struct sg_device {
    int32_t running, last;
    uint64_t slice_end_ns, switch_end_ns;
    uint64_t busy_ns, switches;
    uint64_t intervals, residencies; /* ever written */
    struct sg_interval open;
};

struct sg_group {
    uint64_t key, arrived;
    uint32_t size, reserved;
};

struct sg_core {
    uint64_t now_ns;
    uint32_t next_serial, reserved;
    uint64_t used[SG_CONTEXTS / 64];
    struct sg_device device[SG_DEVICES];
    struct sg_group group[SG_GROUPS];
};

/* One attached process. Its liveness is an open-file-description lock on byte SG_LIVE_BYTE + index, nothing else. */
struct sg_slot {
    _Atomic uint32_t generation;
    uint32_t pid;
    char label[SG_LABEL];
};

/* The owner of a serial: written once when it begins, closed when it ends. */
struct sg_cast {
    uint32_t serial, device, pid, slot;
    uint64_t born_ns, died_ns;
    uint64_t busy_ns, kernels;
    char label[SG_LABEL];
};

struct sg_fault_event {
    uint64_t sequence, data, at_ns;
    uint32_t device, type;
};

/* Faults and words to wait on: each field is one atomic store, so they need no transaction. */
struct sg_control {
    _Atomic uint32_t active;     /* which core is valid */
    _Atomic uint32_t lock;       /* the owner that is in a transaction */
    _Atomic uint32_t changed;    /* futex: an operation may end earlier than foreseen */
    _Atomic uint32_t event_word; /* futex: an event was added */
    _Atomic uint64_t events;     /* ever added */
    struct {
        _Atomic uint32_t lost;
        _Atomic int32_t temperature; /* -1: from the load */
        _Atomic int32_t busy_percent;
        _Atomic uint32_t xid;
        _Atomic uint32_t mig;
        _Atomic uint32_t reserved[3];
    } fault[SG_DEVICES];
    struct sg_fault_event event[SG_EVENTS];
};

#define SG_LIVE_BYTE 0x4000000000000000LL
/* Next to it there is a lock of the process: the kernel names its holder by the id in the process namespace of the caller. */
#define SG_PID_BYTE (SG_LIVE_BYTE + SG_SLOTS)

#endif
