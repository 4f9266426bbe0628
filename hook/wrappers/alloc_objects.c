/* The wrappers of what takes memory by something other than a pointer: physical handles, arrays, graph nodes. None of it
 * can page; what is counted is returned when the last that refers to it is gone. */
#include "driver/contexts.h"
#include "memory/memory.h"
#include "turns/turns.h"
#include "wrappers/claims.h"
#include "wrappers/wrap.h"

enum { ARRAY_DEFERRED_MAPPING = 0x80, ARRAY_SPARSE = 0x40 };
#define MOST_WIDTH (SIZE_MAX / 2) /* beyond it the size is absurd as it is */

/* ------------------------------------------------------------------------------------------------ physical handles */

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                            unsigned long long flags) {
    if (!DRIVER_HAS(cuMemCreate))
        return CUDA_ERROR_NOT_FOUND;
    bool is_on_device = !inside_driver && prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && turns_ready();
    int gpu = is_on_device ? locate_device(prop->location.id) : -1;
    if (gpu >= 0 && claims_make(gpu, UNPAGEABLE, size) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = UNCOUNTED(driver.cuMemCreate(handle, size, prop, flags));
    if (gpu >= 0 && result == CUDA_SUCCESS)
        memory_remember(&(struct allocation){.name = *handle, .bytes = size, .gpu = (signed char)gpu, .kind = UNPAGEABLE,
                                             .space = POOL_HANDLE, .references = 1});
    else if (gpu >= 0)
        claims_return(gpu, UNPAGEABLE, size);
    return result;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    if (!DRIVER_HAS(cuMemRelease))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver.cuMemRelease(handle);
    if (result == CUDA_SUCCESS)
        claims_refer(handle, -1);
    return result;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
    if (!DRIVER_HAS(cuMemRetainAllocationHandle))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver.cuMemRetainAllocationHandle(handle, addr);
    if (result == CUDA_SUCCESS)
        claims_refer(*handle, 1);
    return result;
}

EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags) {
    if (!DRIVER_HAS(cuMemMap))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver.cuMemMap(ptr, size, offset, handle, flags);
    if (result != CUDA_SUCCESS)
        return result;
    claims_refer(handle, 1);
    memory_remember(&(struct allocation){.name = ptr, .bytes = size, .handle = handle, .owner = OF_HANDLE, .space = MAPPING});
    return result;
}

/* One call may undo several mappings that lie side by side. */
EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    if (!DRIVER_HAS(cuMemUnmap))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver.cuMemUnmap(ptr, size);
    struct allocation mapping;
    for (CUdeviceptr at = ptr; result == CUDA_SUCCESS && at < ptr + size && memory_take(MAPPING, at, &mapping);) {
        claims_refer(mapping.handle, -1);
        at += mapping.bytes;
    }
    return result;
}

/* ------------------------------------------------------------------------------------------------ arrays */

static uint64_t bytes_of_format(int format) {
    static const struct {
        int format, bytes;
    } sizes[] = {{0x01, 1}, {0x08, 1}, {0x02, 2}, {0x09, 2}, {0x10, 2}, {0x03, 4}, {0x0a, 4}, {0x20, 4}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].format == format)
            return (uint64_t)sizes[i].bytes;
    return 4; /* compressed and planar ones are smaller: counted too high rather than too low */
}

static uint64_t bytes_of_array(const CUDA_ARRAY3D_DESCRIPTOR *array) {
    if (!array || array->Flags & (ARRAY_DEFERRED_MAPPING | ARRAY_SPARSE))
        return 0;
    uint64_t rows = array->Height ? array->Height : 1, slices = array->Depth ? array->Depth : 1;
    uint64_t elements = memory_product(memory_product(array->Width, rows), slices);
    return memory_product(elements, array->NumChannels * bytes_of_format(array->Format));
}

static int claim_here(uint64_t bytes, CUcontext *context, CUresult *result) {
    *result = CUDA_SUCCESS;
    bool has_context = DRIVER_HAS(cuCtxGetCurrent) && driver.cuCtxGetCurrent(context) == CUDA_SUCCESS && *context;
    if (inside_driver || !has_context || !turns_ready()) {
        *result = UNCOUNTED(CUDA_SUCCESS);
        return -1;
    }
    int gpu = locate_current();
    if (gpu >= 0)
        *result = claims_make(gpu, UNPAGEABLE, bytes);
    return gpu;
}

#define CREATE_ARRAY(function, description, what, arguments)                                                            \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    CUcontext context = NULL;                                                                                           \
    CUresult result;                                                                                                    \
    uint64_t bytes = bytes_of_array(description);                                                                       \
    int gpu = claim_here(bytes, &context, &result);                                                                     \
    if (result != CUDA_SUCCESS)                                                                                         \
        return result;                                                                                                  \
    result = INSIDE(driver.function arguments);                                                                         \
    if (gpu >= 0 && result == CUDA_SUCCESS)                                                                             \
        memory_remember(&(struct allocation){.name = (uintptr_t)*pHandle, .bytes = bytes, .gpu = (signed char)gpu,      \
                                             .kind = UNPAGEABLE, .space = what, .context = context});                   \
    else if (gpu >= 0)                                                                                                  \
        claims_return(gpu, UNPAGEABLE, bytes);                                                                          \
    return result

#define FLAT(array)                                                                                                     \
    &(CUDA_ARRAY3D_DESCRIPTOR){.Width = (array)->Width, .Height = (array)->Height, .Format = (array)->Format,           \
                               .NumChannels = (array)->NumChannels}

EXPORT CUresult cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray) {
    CREATE_ARRAY(cuArrayCreate, pAllocateArray ? FLAT(pAllocateArray) : NULL, ARRAY, (pHandle, pAllocateArray));
}

EXPORT CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
    CREATE_ARRAY(cuArrayCreate_v2, pAllocateArray ? FLAT(pAllocateArray) : NULL, ARRAY, (pHandle, pAllocateArray));
}

EXPORT CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
    CREATE_ARRAY(cuArray3DCreate_v2, pAllocateArray, ARRAY, (pHandle, pAllocateArray));
}

static CUDA_ARRAY3D_DESCRIPTOR widened(const CUDA_ARRAY3D_DESCRIPTOR_v1 *array) {
    if (!array)
        return (CUDA_ARRAY3D_DESCRIPTOR){0};
    return (CUDA_ARRAY3D_DESCRIPTOR){array->Width, array->Height, array->Depth, array->Format, array->NumChannels, array->Flags};
}

EXPORT CUresult cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray) {
    CUDA_ARRAY3D_DESCRIPTOR wide = widened(pAllocateArray);
    CREATE_ARRAY(cuArray3DCreate, &wide, ARRAY, (pHandle, pAllocateArray));
}

/* Each level is half the one before in every direction: a third more in all than the first, at most. */
EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                       unsigned int numMipmapLevels) {
    CUDA_ARRAY3D_DESCRIPTOR all = pMipmappedArrayDesc ? *pMipmappedArrayDesc : (CUDA_ARRAY3D_DESCRIPTOR){0};
    all.Width += numMipmapLevels > 1 && all.Width < MOST_WIDTH ? all.Width / 3 : 0;
    CREATE_ARRAY(cuMipmappedArrayCreate, &all, MIPMAP, (pHandle, pMipmappedArrayDesc, numMipmapLevels));
}

/* ------------------------------------------------------------------------------------------------ graph nodes */

static int claim_node(const CUDA_MEM_ALLOC_NODE_PARAMS *node, CUresult *result) {
    *result = CUDA_SUCCESS;
    if (inside_driver || !node || !turns_ready()) {
        *result = UNCOUNTED(CUDA_SUCCESS);
        return -1;
    }
    int gpu = locate_device(node->poolProps.location.id);
    if (gpu >= 0)
        *result = claims_make(gpu, UNPAGEABLE, node->bytesize);
    return gpu;
}

static void settle_node(int gpu, CUresult result, CUgraph graph, const CUDA_MEM_ALLOC_NODE_PARAMS *node) {
    if (gpu >= 0 && result == CUDA_SUCCESS)
        memory_remember(&(struct allocation){.name = node->dptr, .bytes = node->bytesize, .gpu = (signed char)gpu,
                                             .kind = UNPAGEABLE, .space = POINTER, .owner = OF_GRAPH, .graph = graph});
    else if (gpu >= 0)
        claims_return(gpu, UNPAGEABLE, node->bytesize);
}

#define ADD_NODE(function, node, arguments)                                                                             \
    if (!DRIVER_HAS(function))                                                                                          \
        return CUDA_ERROR_NOT_FOUND;                                                                                    \
    CUresult result;                                                                                                    \
    int gpu = claim_node(node, &result);                                                                                \
    if (result != CUDA_SUCCESS)                                                                                         \
        return result;                                                                                                  \
    result = INSIDE(driver.function arguments);                                                                         \
    settle_node(gpu, result, hGraph, node);                                                                             \
    return result

#define NODE_OF(params) ((params) && (params)->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? &(params)->alloc : NULL)

EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                       size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams) {
    ADD_NODE(cuGraphAddMemAllocNode, nodeParams, (phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

EXPORT CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                               size_t numDependencies, CUgraphNodeParams *nodeParams) {
    ADD_NODE(cuGraphAddNode, NODE_OF(nodeParams), (phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams) {
    ADD_NODE(cuGraphAddNode_v2, NODE_OF(nodeParams),
             (phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams));
}

EXPORT CUresult cuGraphAddNode_v3(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams) {
    ADD_NODE(cuGraphAddNode_v3, NODE_OF(nodeParams),
             (phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams));
}

EXPORT CUresult cuGraphDestroy(CUgraph hGraph) {
    if (!DRIVER_HAS(cuGraphDestroy))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver.cuGraphDestroy(hGraph);
    if (result == CUDA_SUCCESS)
        claims_end_graph(hGraph);
    return result;
}
