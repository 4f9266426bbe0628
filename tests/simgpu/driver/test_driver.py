"""NVIDIA's `cuda-bindings` through the families of the driver API: they get what CUDA promises."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.gpu_machine import Client, Machine

cu: Any = pytest.importorskip("cuda.bindings.driver")
from tests.simgpu import clients  # noqa: E402
from tests.simgpu.clients import begin, kernel, launch, name, take  # noqa: E402


def devices() -> None:
    assert name(cu.cuDeviceGetCount()) == "NOT_INITIALIZED"
    take(cu.cuInit(0))
    assert take(cu.cuDeviceGetCount()) == 3
    assert name(cu.cuDeviceGet(3)) == "INVALID_DEVICE"
    first, last = take(cu.cuDeviceGet(0)), take(cu.cuDeviceGet(2))
    assert take(cu.cuDeviceGetName(64, first)).split(b"\0")[0] == b"NVIDIA A100-SXM4-40GB"
    assert take(cu.cuDeviceTotalMem(first)) == 40 << 30
    attribute = cu.CUdevice_attribute
    assert take(cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, last)) == 7
    assert take(cu.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE, last)) == 32
    uuids = {bytes(take(cu.cuDeviceGetUuid(take(cu.cuDeviceGet(i)))).bytes) for i in range(3)}
    assert len(uuids) == 3
    assert int(take(cu.cuDeviceGetByPCIBusId(take(cu.cuDeviceGetPCIBusId(32, last))))) == int(last)


def contexts() -> None:
    take(cu.cuInit(0))
    assert name(cu.cuCtxGetDevice()) == "INVALID_CONTEXT"
    primary = begin(0)
    assert take(cu.cuDevicePrimaryCtxGetState(0))[1] == 1
    made = take(cu.cuCtxCreate(None, 0, 1))
    assert int(take(cu.cuCtxGetCurrent())) == int(made)
    assert int(take(cu.cuCtxGetDevice())) == 1
    assert int(take(cu.cuCtxPopCurrent())) == int(made)
    assert int(take(cu.cuCtxGetCurrent())) == int(primary)
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(name(cu.cuCtxSynchronize())))
    thread.start()
    thread.join()
    assert seen == ["INVALID_CONTEXT"], "a new thread has no current context"
    take(cu.cuCtxDestroy(made))
    assert name(cu.cuCtxSetCurrent(made)) == "INVALID_CONTEXT"
    take(cu.cuDevicePrimaryCtxRelease(0))
    assert name(cu.cuDevicePrimaryCtxRelease(0)) == "INVALID_CONTEXT"


def modules() -> None:
    begin()
    ptx = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry twice_5ms(.param .u64 a)\n{ ret; }\n\0"
    module = take(cu.cuModuleLoadData(ptx))
    function = take(cu.cuModuleGetFunction(module, b"twice_5ms"))
    assert name(cu.cuModuleGetFunction(module, b"thrice")) == "NOT_FOUND"
    assert name(cu.cuModuleLoadData(b"no image at all\0")) == "INVALID_PTX"
    assert name(cu.cuModuleLoadData(b"\x01\x02\x03\x04\x05\0")) == "INVALID_IMAGE"
    assert take(cu.cuFuncGetName(function)).startswith(b"twice_5ms")
    library = take(cu.cuLibraryLoadData(ptx, [], [], 0, [], [], 0))
    assert take(cu.cuLibraryGetKernelCount(library)) == 1
    in_context = take(cu.cuKernelGetFunction(take(cu.cuLibraryGetKernel(library, b"twice_5ms"))))
    take(launch(in_context))
    take(cu.cuCtxSynchronize())
    take(cu.cuLibraryUnload(library))
    take(cu.cuModuleUnload(module))
    assert name(cu.cuModuleUnload(module)) == "INVALID_HANDLE"


def streams_and_events() -> None:
    begin()
    step = kernel("step_10ms")
    low, high = take(cu.cuCtxGetStreamPriorityRange())
    stream = take(cu.cuStreamCreateWithPriority(clients.NON_BLOCKING, high))
    assert take(cu.cuStreamGetPriority(stream)) == high < low
    before, after = take(cu.cuEventCreate(0)), take(cu.cuEventCreate(0))
    take(cu.cuEventRecord(before, stream))
    for _ in range(3):
        take(launch(step, stream))
    take(cu.cuEventRecord(after, stream))
    assert name(cu.cuStreamQuery(stream)) == "NOT_READY"
    assert name(cu.cuEventQuery(after)) == "NOT_READY"
    assert name(cu.cuEventElapsedTime(before, after)) == "NOT_READY"
    take(cu.cuEventSynchronize(after))
    assert 30 <= take(cu.cuEventElapsedTime(before, after)) < 45
    untimed = take(cu.cuEventCreate(2))
    take(cu.cuEventRecord(untimed, stream))
    take(cu.cuStreamSynchronize(stream))
    assert name(cu.cuEventElapsedTime(before, untimed)) == "INVALID_HANDLE"
    take(cu.cuStreamDestroy(stream))
    assert name(cu.cuStreamQuery(stream)) == "INVALID_HANDLE"


def legacy_waits_for_blocking() -> tuple[float, float]:
    """Return when the legacy stream's kernel ends, in ms: after a blocking and after a non-blocking stream's kernel."""
    begin()
    step, ends = kernel("step_20ms"), []
    for flags in (0, clients.NON_BLOCKING):
        other, start, end = take(cu.cuStreamCreate(flags)), take(cu.cuEventCreate(0)), take(cu.cuEventCreate(0))
        take(cu.cuEventRecord(start, other))
        take(launch(step, other))
        take(cu.cuEventRecord(end, 0))
        take(cu.cuCtxSynchronize())
        ends.append(take(cu.cuEventElapsedTime(start, end)))
    return ends[0], ends[1]


def waits_between_streams() -> float:
    begin()
    step = kernel("step_10ms")
    one, other = take(cu.cuStreamCreate(1)), take(cu.cuStreamCreate(1))
    mark, start, end = (take(cu.cuEventCreate(0)) for _ in range(3))
    take(cu.cuEventRecord(start, one))
    take(launch(step, one))
    take(cu.cuEventRecord(mark, one))
    take(cu.cuStreamWaitEvent(other, mark, 0))
    take(launch(step, other))
    take(cu.cuEventRecord(end, other))
    take(cu.cuCtxSynchronize())
    return float(take(cu.cuEventElapsedTime(start, end)))


def copies_and_sets() -> None:
    begin()
    one, other = take(cu.cuMemAlloc(4096)), take(cu.cuMemAlloc(4096))
    text = bytes(range(256)) * 16
    stream = take(cu.cuStreamCreate(0))
    take(cu.cuMemcpyHtoD(one, text, 4096))
    take(cu.cuMemcpyDtoDAsync(other, one, 4096, stream))
    take(cu.cuMemsetD16Async(int(other) + 2, 0x4142, 3, stream))
    take(cu.cuStreamSynchronize(stream))
    back = bytearray(4096)
    take(cu.cuMemcpyDtoH(back, other, 4096))
    assert bytes(back) == text[:2] + b"BABABA" + text[8:]
    assert name(cu.cuMemcpyDtoH(back, other, 4097)) == "INVALID_VALUE"
    assert name(cu.cuMemsetD8(int(one) + 4090, 0, 7)) == "INVALID_VALUE"
    plane, pitch = take(cu.cuMemAllocPitch(100, 8, 4))
    take(cu.cuMemsetD2D8(plane, pitch, 7, 100, 8))
    copy = cu.CUDA_MEMCPY2D()
    copy.srcMemoryType, copy.srcDevice, copy.srcPitch = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, plane, pitch
    copy.dstMemoryType, copy.dstDevice, copy.dstPitch = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, one, 100
    copy.WidthInBytes, copy.Height = 100, 8
    take(cu.cuMemcpy2D(copy))
    take(cu.cuMemcpyDtoH(back, one, 4096))
    assert bytes(back) == b"\7" * 800 + text[800:]


def arrays() -> None:
    begin()
    shape = cu.CUDA_ARRAY_DESCRIPTOR()
    shape.Width, shape.Height, shape.NumChannels = 64, 4, 1
    shape.Format = cu.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8
    array = take(cu.cuArrayCreate(shape))
    take(cu.cuMemcpyHtoA(array, 0, b"x" * 64, 64))
    back = bytearray(64)
    take(cu.cuMemcpyAtoH(back, array, 0, 64))
    assert bytes(back) == b"x" * 64
    assert take(cu.cuArrayGetDescriptor(array)).Width == 64
    free = take(cu.cuMemGetInfo())[0]
    deep = cu.CUDA_ARRAY3D_DESCRIPTOR()
    deep.Width, deep.Height, deep.NumChannels, deep.Format = 8192, 8192, 4, shape.Format
    mipmap = take(cu.cuMipmappedArrayCreate(deep, 3))
    assert free - take(cu.cuMemGetInfo())[0] == (8192**2 + 4096**2 + 2048**2) * 4, "arrays are charged"
    take(cu.cuMipmappedArrayDestroy(mipmap))
    assert take(cu.cuMemGetInfo())[0] == free
    take(cu.cuArrayDestroy(array))
    assert name(cu.cuArrayDestroy(array)) == "INVALID_HANDLE"


def pools() -> None:
    begin()
    stream, free = take(cu.cuStreamCreate(0)), take(cu.cuMemGetInfo())[0]
    pool = take(cu.cuDeviceGetDefaultMemPool(0))
    keep = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
    used = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    pointer = take(cu.cuMemAllocAsync(64 << 20, stream))
    assert int(take(cu.cuMemPoolGetAttribute(pool, used))) == 64 << 20
    take(cu.cuMemFreeAsync(pointer, stream))
    take(cu.cuStreamSynchronize(stream))
    assert take(cu.cuMemGetInfo())[0] == free
    take(cu.cuMemPoolSetAttribute(pool, keep, cu.cuuint64_t(32 << 20)))
    take(cu.cuMemFree(take(cu.cuMemAllocFromPoolAsync(64 << 20, pool, stream))))
    assert int(take(cu.cuMemPoolGetAttribute(pool, used))) == 0, "it goes back to its pool, however it is freed"
    take(cu.cuMemPoolTrimTo(pool, 0))
    take(cu.cuMemFreeAsync(take(cu.cuMemAllocFromPoolAsync(64 << 20, pool, stream)), stream))
    take(cu.cuStreamSynchronize(stream))
    assert free - take(cu.cuMemGetInfo())[0] == 32 << 20, "what is below the threshold stays with the pool"
    take(cu.cuMemPoolTrimTo(pool, 0))
    assert take(cu.cuMemGetInfo())[0] == free
    assert name(cu.cuMemAllocAsync(64 << 30, stream)) == "OUT_OF_MEMORY"


def virtual_memory() -> None:
    begin()
    prop = cu.CUmemAllocationProp()
    prop.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type, prop.location.id = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    unit = take(cu.cuMemGetAllocationGranularity(prop, cu.CUmemAllocationGranularity_flags(0)))
    free = take(cu.cuMemGetInfo())[0]
    assert name(cu.cuMemCreate(unit + 1, prop, 0)) == "INVALID_VALUE"
    physical = take(cu.cuMemCreate(4 * unit, prop, 0))
    assert free - take(cu.cuMemGetInfo())[0] == 4 * unit
    place = take(cu.cuMemAddressReserve(8 * unit, 0, 0, 0))
    take(cu.cuMemMap(place, 4 * unit, 0, physical, 0))
    take(cu.cuMemMap(int(place) + 4 * unit, 4 * unit, 0, physical, 0))
    assert name(cu.cuMemMap(place, unit, 0, physical, 0)) == "INVALID_VALUE", "there is something already"
    access = cu.CUmemAccessDesc()
    access.location, access.flags = prop.location, cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    take(cu.cuMemSetAccess(place, 8 * unit, [access], 1))
    take(cu.cuMemcpyHtoD(place, b"same bytes", 10))
    back = bytearray(10)
    take(cu.cuMemcpyDtoH(back, int(place) + 4 * unit, 10))
    assert bytes(back) == b"same bytes", "one memory mapped twice"
    take(cu.cuMemRelease(physical))
    assert free - take(cu.cuMemGetInfo())[0] == 4 * unit, "a mapping holds the memory"
    assert name(cu.cuMemAddressFree(place, 8 * unit)) == "INVALID_VALUE"
    take(cu.cuMemUnmap(place, 8 * unit))
    assert take(cu.cuMemGetInfo())[0] == free
    take(cu.cuMemAddressFree(place, 8 * unit))


def host_memory_and_pointers() -> None:
    begin()
    host = take(cu.cuMemHostAlloc(4096, 0))
    pointer, managed = take(cu.cuMemAlloc(4096)), take(cu.cuMemAllocManaged(1 << 20, 1))
    kind = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    assert int(take(cu.cuPointerGetAttribute(kind, int(host)))) == 1
    assert int(take(cu.cuPointerGetAttribute(kind, pointer))) == 2
    is_managed = cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_IS_MANAGED
    assert bool(take(cu.cuPointerGetAttribute(is_managed, managed)))
    assert name(cu.cuPointerGetAttribute(kind, 4096)) == "INVALID_VALUE"
    ctypes.memset(int(managed), 65, 4)
    assert ctypes.string_at(int(managed), 4) == b"AAAA", "managed memory is the host's too"
    assert int(take(cu.cuMemGetAddressRange(int(pointer) + 100))[0]) == int(pointer)
    assert name(cu.cuIpcGetMemHandle(managed)) == "INVALID_VALUE"
    take(cu.cuIpcGetMemHandle(pointer))
    take(cu.cuMemFreeHost(host))
    take(cu.cuMemFree(pointer))
    assert name(cu.cuMemFree(pointer)) == "INVALID_VALUE"


def every_launch() -> None:
    begin()
    stream = take(cu.cuStreamCreate(0))
    step = kernel("step_1ms")
    config = cu.CUlaunchConfig()
    config.gridDimX = config.gridDimY = config.gridDimZ = 1
    config.blockDimX = config.blockDimY = config.blockDimZ = 1
    config.hStream = stream
    take(cu.cuLaunchKernelEx(config, step, 0, 0))
    take(cu.cuLaunchCooperativeKernel(step, 1, 1, 1, 1, 1, 1, 0, stream, 0))
    too_large = cu.cuLaunchCooperativeKernel(step, 10000, 1, 1, 1024, 1, 1, 0, stream, 0)
    assert name(too_large) == "COOPERATIVE_LAUNCH_TOO_LARGE"
    assert name(cu.cuLaunchKernel(step, 0, 1, 1, 1, 1, 1, 0, stream, 0, 0)) == "INVALID_VALUE"
    assert name(cu.cuLaunchKernel(step, 1, 1, 1, 2048, 1, 1, 0, stream, 0, 0)) == "INVALID_VALUE"
    take(cu.cuStreamSynchronize(stream))
    start, end = take(cu.cuEventCreate(0)), take(cu.cuEventCreate(0))
    take(cu.cuEventRecord(start, stream))
    take(cu.cuLaunchKernel(kernel("any_param"), 1, 1, 1, 1, 1, 1, 0, stream, ((20_000_000,), (ctypes.c_uint64,)), 0))
    take(cu.cuEventRecord(end, stream))
    take(cu.cuStreamSynchronize(stream))
    assert 20 <= take(cu.cuEventElapsedTime(start, end)) < 40, "a parameter says how long"


def host_functions() -> None:
    begin()
    stream, order = take(cu.cuStreamCreate(1)), []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    note = kind(lambda data: order.append(data))
    place = ctypes.c_void_p(ctypes.cast(note, ctypes.c_void_p).value)
    function = cu.CUhostFn(_ptr=ctypes.addressof(place))
    take(launch(kernel("step_5ms"), stream))
    take(cu.cuLaunchHostFunc(stream, function, 1))
    take(launch(kernel("step_5ms"), stream))
    take(cu.cuLaunchHostFunc(stream, function, 2))
    assert order == []
    take(cu.cuStreamSynchronize(stream))
    assert order == [1, 2]


def stream_memory_operations() -> None:
    begin()
    stream, word = take(cu.cuStreamCreate(1)), take(cu.cuMemAllocManaged(4096, 1))
    take(cu.cuMemsetD32(word, 0, 4))
    take(cu.cuStreamWaitValue32(stream, word, 5, 0))
    take(cu.cuStreamWriteValue32(stream, int(word) + 4, 7, 0))
    assert name(cu.cuStreamQuery(stream)) == "NOT_READY"
    ctypes.c_uint32.from_address(int(word)).value = 5
    take(cu.cuStreamSynchronize(stream))
    assert ctypes.c_uint32.from_address(int(word) + 4).value == 7


def thread_has_a_stream_of_its_own() -> None:
    begin()
    per_thread = cu.CUstream(cu.CU_STREAM_PER_THREAD)
    mine = take(cu.cuStreamGetId(per_thread))
    theirs: list[int] = []
    context = take(cu.cuCtxGetCurrent())

    def ask() -> None:
        take(cu.cuCtxSetCurrent(context))
        theirs.append(take(cu.cuStreamGetId(per_thread)))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert theirs[0] != mine == take(cu.cuStreamGetId(per_thread))
    assert take(cu.cuStreamGetId(0)) == take(cu.cuStreamGetId(cu.CUstream(cu.CU_STREAM_LEGACY)))


def procedures() -> None:
    take(cu.cuInit(0))
    found, sufficient = 0, cu.CUdriverProcAddressQueryResult
    address, status = take(cu.cuGetProcAddress(b"cuMemAlloc", 12000, found))
    assert address
    assert status == sufficient.CU_GET_PROC_ADDRESS_SUCCESS
    old = take(cu.cuGetProcAddress(b"cuMemAlloc", 2000, 0))[0]
    assert old != address, "version 2000 is the 32-bit one"
    assert (
        take(cu.cuGetProcAddress(b"cuStreamQuery", 12000, 2))[0]
        != take(cu.cuGetProcAddress(b"cuStreamQuery", 12000, 1))[0]
    )
    # the thread's own stream came with 7.0: NVIDIA's driver gives nobody the other form instead
    own_too_early = take(cu.cuGetProcAddress(b"cuStreamQuery", 5000, 2))
    assert own_too_early == (0, sufficient.CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT)
    assert take(cu.cuGetProcAddress(b"cuStreamQuery", 5000, 1))[0]
    assert take(cu.cuGetProcAddress(b"cuNoSuchThing", 12000, 0))[1] == sufficient.CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
    too_old = take(cu.cuGetProcAddress(b"cuLaunchKernelEx", 11000, 0))
    assert too_old[1] == sufficient.CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
    assert not too_old[0]
    assert name(cu.cuGetProcAddress(b"cuInit", 99000, 0)) == "INVALID_VALUE"
    first_form, pointer = ctypes.CDLL("libcuda.so.1").cuGetProcAddress, ctypes.c_void_p()
    assert first_form(b"cuMemAlloc", ctypes.byref(pointer), 11030, ctypes.c_uint64(0)) == 0
    assert pointer.value == address
    assert first_form(b"cuNoSuchThing", ctypes.byref(pointer), 11030, ctypes.c_uint64(0)) == 500
    two = [take(cu.cuGetProcAddress(b"cuMemcpyBatchAsync", version, 0))[0] for version in (12080, 13000)]
    assert two[0] != two[1]


@pytest.mark.parametrize(
    "behaviour",
    [
        contexts, modules, streams_and_events, copies_and_sets, arrays, pools, virtual_memory,
        host_memory_and_pointers, every_launch, host_functions, stream_memory_operations,
        thread_has_a_stream_of_its_own, procedures, devices,
    ],
    ids=lambda function: function.__name__.replace("_", " "),
)  # fmt: skip
def test_nvidias_bindings_find(behaviour: Callable[[], None], make_machine: Callable[..., Machine]) -> None:
    with make_machine("2xA100-40GB,1xT4-16GB").client() as client:
        client.call(behaviour)


def test_the_legacy_stream_waits_for_blocking_streams_only(machine: Machine) -> None:
    with machine.client() as client:
        blocking, other = client.call(legacy_waits_for_blocking)

    assert blocking >= 20
    assert other < 19


def test_a_stream_waits_for_another_s_event(make_machine: Callable[..., Machine]) -> None:
    with make_machine(overlap="4").client() as client:
        assert 20 <= client.call(waits_between_streams) < 35


def two_streams() -> float:
    begin()
    step, streams = kernel("step_20ms"), [take(cu.cuStreamCreate(1)) for _ in range(2)]
    start, ends = take(cu.cuEventCreate(0)), [take(cu.cuEventCreate(0)) for _ in range(2)]
    take(cu.cuEventRecord(start, streams[0]))
    for stream, end in zip(streams, ends, strict=True):
        take(launch(step, stream))
        take(cu.cuEventRecord(end, stream))
    take(cu.cuCtxSynchronize())
    return max(float(take(cu.cuEventElapsedTime(start, end))) for end in ends)


@pytest.mark.parametrize(("overlap", "least", "most"), [("1", 40, 60), ("2", 20, 39)])
def test_streams_overlap_as_the_setting_says(
    overlap: str, least: float, most: float, make_machine: Callable[..., Machine]
) -> None:
    with make_machine(overlap=overlap).client() as client:
        assert least <= client.call(two_streams) < most


def stream_0_in_two_threads() -> float:
    """Return seconds until the kernels are done that two threads launched into stream 0."""
    context, step = begin(), kernel("step_200ms")
    began = time.monotonic()

    def work() -> None:
        take(cu.cuCtxSetCurrent(context))
        take(launch(step, 0))
        take(cu.cuStreamSynchronize(0))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - began


@pytest.mark.parametrize(("per_thread", "least", "most"), [("0", 0.4, 0.8), ("1", 0.2, 0.39)])
def test_stream_0_is_the_thread_s_own_in_the_per_thread_entry_points(
    per_thread: str, least: float, most: float, make_machine: Callable[..., Machine]
) -> None:
    environment = make_machine(overlap="2").environment()
    with Client({**environment, "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM": per_thread}) as client:
        client.call(clients.begin_and_forget)

        assert least <= client.call(stream_0_in_two_threads) < most


def work_in_the_child() -> str:
    import os

    begin()
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, name(cu.cuDeviceGetCount()).encode())
        os._exit(0)
    return os.read(reading, 64).decode()


def test_a_forked_child_of_a_program_that_used_cuda_cannot_use_it(machine: Machine) -> None:
    with machine.client() as client:
        assert client.call(work_in_the_child) == "NOT_INITIALIZED"
