/* The types of the driver, as the calling convention sees them.
 *
 * The rule: handles are pointers, enums are ints, and structs that the hook does not read stay incomplete.
 * tests/hook/driver/test_table.py compares them with NVIDIA's headers.  This file includes no other file of the hook. */
#ifndef NVSHARE_ABI_H
#define NVSHARE_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef int CUdevice_attribute;
typedef int CUmemPool_attribute;
typedef int CUmemRangeHandleType;
typedef int CUpointer_attribute;
typedef int CUstreamCaptureMode;
typedef int CUstreamCaptureStatus;
typedef int CUdriverProcAddressQueryResult;
typedef unsigned int CUdeviceptr_v1;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;
typedef int nvmlReturn_t;

#define HANDLE(name) typedef struct name##_st *name;
HANDLE(CUcontext)
HANDLE(CUgreenCtx)
HANDLE(CUstream)
HANDLE(CUevent)
HANDLE(CUfunction)
HANDLE(CUarray)
HANDLE(CUmipmappedArray)
HANDLE(CUgraph)
HANDLE(CUgraphNode)
HANDLE(CUgraphExec)
HANDLE(CUgraphicsResource)
HANDLE(CUexternalSemaphore)
HANDLE(CUmemoryPool)
HANDLE(nvmlDevice_t)
#undef HANDLE

#define INCOMPLETE(name) typedef struct name##_st name;
INCOMPLETE(CUDA_MEMCPY2D)
INCOMPLETE(CUDA_MEMCPY2D_v1)
INCOMPLETE(CUDA_MEMCPY3D)
INCOMPLETE(CUDA_MEMCPY3D_v1)
INCOMPLETE(CUDA_MEMCPY3D_PEER)
INCOMPLETE(CUDA_MEMCPY3D_BATCH_OP)
INCOMPLETE(CUmemcpyAttributes)
INCOMPLETE(CUarrayMapInfo)
INCOMPLETE(CUmemDecompressParams)
INCOMPLETE(CUstreamBatchMemOpParams)
INCOMPLETE(CUstreamCigCaptureParams)
INCOMPLETE(CUgraphEdgeData)
INCOMPLETE(CUipcMemHandle)
INCOMPLETE(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS)
INCOMPLETE(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS)
#undef INCOMPLETE

typedef void (*CUgraphRecaptureCallback)(void);

typedef struct {
    unsigned char bytes[16];
} CUuuid;

typedef struct {
    int type, id;
} CUmemLocation;

typedef struct {
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    void *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

typedef struct {
    CUfunction function;
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    void **kernelParams;
} CUDA_LAUNCH_PARAMS;

typedef struct {
    cuuint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    int result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

typedef struct {
    size_t Width, Height;
    int Format;
    unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;

typedef struct {
    unsigned int Width, Height;
    int Format;
    unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v1;

typedef struct {
    size_t Width, Height, Depth;
    int Format;
    unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR;

typedef struct {
    unsigned int Width, Height, Depth;
    int Format;
    unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;

typedef struct {
    int type, requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    unsigned char allocFlags[8];
} CUmemAllocationProp;

typedef struct {
    int allocType, handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned char rest[56];
} CUmemPoolProps;

typedef struct {
    CUmemPoolProps poolProps;
    const void *accessDescs;
    size_t accessDescCount, bytesize;
    CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct {
    int type, reserved[3];
    CUDA_MEM_ALLOC_NODE_PARAMS alloc; /* when type says so */
} CUgraphNodeParams;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_NOT_PERMITTED = 800,
};

enum { NVML_ERROR_FUNCTION_NOT_FOUND = 13 };
#define CU_STREAM_LEGACY ((CUstream)1)
#define CU_STREAM_PER_THREAD ((CUstream)2)
enum { CU_STREAM_CAPTURE_MODE_RELAXED = 2 };
enum { CU_EVENT_DISABLE_TIMING = 2 };
enum { CU_MEM_ATTACH_GLOBAL = 1 };
enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
enum { CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10 };
enum { CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2 };
enum { CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89 };
enum { CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2 };

#endif
