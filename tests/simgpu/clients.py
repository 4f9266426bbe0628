"""Functions that tests run in a client process, on NVIDIA's own `cuda-bindings`.

Each asserts what CUDA promises, in the words of the driver API.  Imported by the client, so the bindings load there,
on top of the software GPU; the test process itself never loads a driver.
"""

from __future__ import annotations

import time
from typing import Any

from cuda.bindings import driver as cu

GLOBAL, THREAD_LOCAL, RELAXED = (
    cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL,
    cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
    cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED,
)
NON_BLOCKING = 1
ANY_NAME = b"SGPU\0"


def take(result: tuple[Any, ...]) -> Any:
    """What a call gave, after its success."""
    assert result[0] == cu.CUresult.CUDA_SUCCESS, result[0]
    return result[1] if len(result) == 2 else result[1:]


def name(result: tuple[Any, ...]) -> str:
    """The name of what a call answered."""
    return str(result[0].name).removeprefix("CUDA_ERROR_").removeprefix("CUDA_")


def begin(device: int = 0) -> Any:
    """The primary context of a device, current; gives the context."""
    take(cu.cuInit(0))
    context = take(cu.cuDevicePrimaryCtxRetain(take(cu.cuDeviceGet(device))))
    take(cu.cuCtxSetCurrent(context))
    return context


def kernel(kernel_name: str) -> Any:
    module = take(cu.cuModuleLoadData(ANY_NAME))
    return take(cu.cuModuleGetFunction(module, kernel_name.encode()))


def launch(function: Any, stream: Any = 0) -> tuple[Any, ...]:
    return cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0)


def run_kernels(kernel_name: str, count: int) -> float:
    """Launches so many, waits, and gives the seconds that took."""
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
