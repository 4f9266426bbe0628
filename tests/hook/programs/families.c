/* Allocates so many bytes in every way there is and frees them again: `way result free-after`. families MIB */
#include "program.h"

CUresult cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned int);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuMemCreate(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);
CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *, CUdevice);
CUresult cuArrayCreate_v2(CUarray *, const CUDA_ARRAY_DESCRIPTOR *);
CUresult cuArray3DCreate_v2(CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *);
CUresult cuArrayDestroy(CUarray);
CUresult cuMipmappedArrayCreate(CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned int);
CUresult cuMipmappedArrayDestroy(CUmipmappedArray);
CUresult cuGraphCreate(CUgraph *, unsigned int);
CUresult cuGraphDestroy(CUgraph);
CUresult cuGraphAddMemAllocNode(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUDA_MEM_ALLOC_NODE_PARAMS *);

static size_t bytes;
static CUdeviceptr pointer;

static CUresult plain(void) {
    CUresult result = cuMemAlloc_v2(&pointer, bytes);
    if (!result)
        CHECK(cuMemFree_v2(pointer));
    return result;
}

static CUresult managed(void) {
    CUresult result = cuMemAllocManaged(&pointer, bytes, 1);
    if (!result)
        CHECK(cuMemFree_v2(pointer));
    return result;
}

static CUresult pitch(void) {
    size_t row;
    CUresult result = cuMemAllocPitch_v2(&pointer, &row, 1024, bytes / 1024, 4);
    if (!result) {
        EXPECT(row >= 1024);
        CHECK(cuMemFree_v2(pointer));
    }
    return result;
}

static CUresult in_stream(void) {
    CUresult result = cuMemAllocAsync(&pointer, bytes, NULL);
    if (!result)
        CHECK(cuMemFreeAsync(pointer, NULL));
    return result;
}

static CUresult from_pool(void) {
    CUmemoryPool pool;
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    CUresult result = cuMemAllocFromPoolAsync(&pointer, bytes, pool, NULL);
    if (!result)
        CHECK(cuMemFree_v2(pointer));
    return result;
}

/* The handle is released before the mapping goes: the memory is held until then. */
static CUresult physical(void) {
    CUmemAllocationProp prop = {.type = 1, .location = {1, 0}};
    CUmemGenericAllocationHandle handle;
    size_t before, free, total;
    CHECK(cuMemGetInfo_v2(&before, &total));
    CUresult result = cuMemCreate(&handle, bytes, &prop, 0);
    if (result)
        return result;
    CHECK(cuMemAddressReserve(&pointer, bytes, 0, 0, 0));
    CHECK(cuMemMap(pointer, bytes, 0, handle, 0));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemGetInfo_v2(&free, &total));
    EXPECT(free == before - bytes);
    CHECK(cuMemUnmap(pointer, bytes));
    return result;
}

static CUresult array(void) {
    CUarray made;
    CUresult result = cuArrayCreate_v2(&made, &(CUDA_ARRAY_DESCRIPTOR){bytes / 16384, 4096, 0x20, 1});
    if (!result)
        CHECK(cuArrayDestroy(made));
    return result;
}

static CUresult array_3d(void) {
    CUarray made;
    CUresult result = cuArray3DCreate_v2(&made, &(CUDA_ARRAY3D_DESCRIPTOR){bytes / 65536, 128, 128, 0x20, 1, 0});
    if (!result)
        CHECK(cuArrayDestroy(made));
    return result;
}

static CUresult mipmaps(void) {
    CUmipmappedArray made;
    CUresult result = cuMipmappedArrayCreate(&made, &(CUDA_ARRAY3D_DESCRIPTOR){bytes / 16384, 4096, 0, 0x20, 1, 0}, 1);
    if (!result)
        CHECK(cuMipmappedArrayDestroy(made));
    return result;
}

static CUresult graph_node(void) {
    CUgraph graph;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = {.allocType = 1, .location = {1, 0}}, .bytesize = bytes};
    CHECK(cuGraphCreate(&graph, 0));
    CUresult result = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params);
    CHECK(cuGraphDestroy(graph));
    return result;
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        CUresult (*take)(void);
    } ways[] = {{"plain", plain},       {"managed", managed},   {"pitch", pitch},     {"in-stream", in_stream},
                {"from-pool", from_pool}, {"physical", physical}, {"array", array},     {"array-3d", array_3d},
                {"mipmaps", mipmaps},   {"graph-node", graph_node}};
    size_t free, total;
    bytes = (size_t)(count > 1 ? atol(words[1]) : 64) << 20;
    use_device(0);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        CUresult result = ways[i].take();
        CHECK(cuMemGetInfo_v2(&free, &total));
        printf("%s %d %zu %zu\n", ways[i].name, result, free, total);
    }
    return 0;
}
