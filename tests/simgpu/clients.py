"""Functions that tests run in a client process, on NVIDIA's own `cuda-bindings`.

Each asserts what CUDA promises, in the words of the driver API.  Imported by the client, so the bindings load there,
on top of the software GPU; the test process itself never loads a driver.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

cu: Any = importlib.import_module("cuda.bindings.driver")

GLOBAL, THREAD_LOCAL, RELAXED = (
    cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL,
    cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED,
)
NON_BLOCKING = 1
ANY_NAME = b"SGPU\0"


def take(result: tuple[Any, ...]) -> Any:
    """Return the result of a call, which must have succeeded."""
    assert result[0] == cu.CUresult.CUDA_SUCCESS, result[0]
    return result[1] if len(result) == 2 else result[1:]


def name(result: tuple[Any, ...]) -> str:
    """Return the name of a call's error code."""
    return str(result[0].name).removeprefix("CUDA_ERROR_").removeprefix("CUDA_")


def begin(device: int = 0) -> Any:
    """Make the device's primary context current and return it."""
    take(cu.cuInit(0))
    context = take(cu.cuDevicePrimaryCtxRetain(take(cu.cuDeviceGet(device))))
    take(cu.cuCtxSetCurrent(context))
    return context


def kernel(kernel_name: str) -> Any:
    module = take(cu.cuModuleLoadData(ANY_NAME))
    return take(cu.cuModuleGetFunction(module, kernel_name.encode()))


def launch(function: Any, stream: Any = 0) -> tuple[Any, ...]:
    answer: tuple[Any, ...] = cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)
    return answer


def run_kernels(kernel_name: str, count: int) -> float:
    """Launch so many kernels, wait for them, and return the seconds that took."""
    begin()
    function, began = kernel(kernel_name), time.monotonic()
    for _ in range(count):
        take(launch(function))
    take(cu.cuCtxSynchronize())
    return time.monotonic() - began


def allocate_managed(megabytes: int) -> int:
    begin()
    return int(take(cu.cuMemAllocManaged(megabytes << 20, 1)))


def allocate(megabytes: int) -> str:
    begin()
    return name(cu.cuMemAlloc(megabytes << 20))


def free_megabytes() -> int:
    begin()
    free, _ = take(cu.cuMemGetInfo())
    return int(free) >> 20


def begin_and_forget() -> None:
    begin()


def begin_on(device: int) -> None:
    begin(device)


def run_here(kernel_name: str, count: int) -> float:
    """Do what `run_kernels` does, in the context that is current already."""
    function, began = kernel(kernel_name), time.monotonic()
    for _ in range(count):
        take(launch(function))
    take(cu.cuCtxSynchronize())
    return time.monotonic() - began


def seconds_to_submit(kernel_name: str, count: int) -> float:
    """Return how long it takes to launch so many kernels without waiting for them."""
    begin()
    function, began = kernel(kernel_name), time.monotonic()
    for _ in range(count):
        take(launch(function))
    submitted = time.monotonic() - began
    take(cu.cuCtxSynchronize())
    return submitted


def use_managed(kernel_name: str, rounds: int) -> list[float]:
    """Run kernels that touch the allocation; return the seconds of each on the device."""
    function, times = kernel(kernel_name), []
    for _ in range(rounds):
        start, end = take(cu.cuEventCreate(0)), take(cu.cuEventCreate(0))
        take(cu.cuEventRecord(start, 0))
        take(launch(function))
        take(cu.cuEventRecord(end, 0))
        take(cu.cuCtxSynchronize())
        times.append(float(take(cu.cuEventElapsedTime(start, end))) / 1e3)
    return times


def prefetch(pointer: int, megabytes: int, to_device: bool) -> None:
    location = cu.CUmemLocation()
    kinds = cu.CUmemLocationType
    location.type = kinds.CU_MEM_LOCATION_TYPE_DEVICE if to_device else kinds.CU_MEM_LOCATION_TYPE_HOST
    take(cu.cuMemPrefetchAsync(pointer, megabytes << 20, location, 0, 0))
    take(cu.cuCtxSynchronize())


def allocate_name(device: int) -> str:
    """Return the name of the error code of an allocation on a device."""
    take(cu.cuInit(0))
    answer, context = cu.cuDevicePrimaryCtxRetain(device)
    if answer != cu.CUresult.CUDA_SUCCESS:
        return name((answer,))
    take(cu.cuCtxSetCurrent(context))
    return name(cu.cuMemAlloc(512))


def spread_over_streams(streams: int, kernels: int) -> float:
    """Return the milliseconds until all streams are done, each with so many kernels of 20 ms."""
    begin()
    step = kernel("step_20ms")
    made = [take(cu.cuStreamCreate(NON_BLOCKING)) for _ in range(streams)]
    start, ends = take(cu.cuEventCreate(0)), [take(cu.cuEventCreate(0)) for _ in made]
    take(cu.cuEventRecord(start, made[0]))
    for _ in range(kernels):
        for stream in made:
            take(launch(step, stream))
    for stream, end in zip(made, ends, strict=True):
        take(cu.cuEventRecord(end, stream))
    take(cu.cuCtxSynchronize())
    return max(float(take(cu.cuEventElapsedTime(start, end))) for end in ends)
