"""Attributes and occupancy of functions and kernels, as cuda.h and NVIDIA's tables of compute capabilities say.

Expected sizes: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".  Expected answers: the
comments of cuda.h at the function that each test names.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.gpu_machine import Machine

cu: Any = pytest.importorskip("cuda.bindings.driver")
from tests.simgpu.clients import ANY_NAME, begin, kernel, launch, name, take  # noqa: E402

ATTRIBUTE, DEVICE = cu.CUfunction_attribute, cu.CUdevice_attribute
DYNAMIC_SHARED = ATTRIBUTE.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
PTX, BINARY = ATTRIBUTE.CU_FUNC_ATTRIBUTE_PTX_VERSION, ATTRIBUTE.CU_FUNC_ATTRIBUTE_BINARY_VERSION
LIMITS = (
    DEVICE.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    DEVICE.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
    DEVICE.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
    DEVICE.CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
)
KIB = 1024
CARDS = {
    "P100-16GB": (60, 48 * KIB, 64 * KIB, 2048, 32),
    "V100-16GB": (70, 96 * KIB, 96 * KIB, 2048, 32),
    "T4-16GB": (75, 64 * KIB, 64 * KIB, 1024, 16),
    "A100-40GB": (80, 163 * KIB, 164 * KIB, 2048, 32),
    "L4-24GB": (89, 99 * KIB, 100 * KIB, 1536, 24),
    "H100-80GB": (90, 227 * KIB, 228 * KIB, 2048, 32),
}


def library_kernel(kernel_name: str) -> Any:
    library = take(cu.cuLibraryLoadData(ANY_NAME, [], [], 0, [], [], 0))
    return take(cu.cuLibraryGetKernel(library, kernel_name.encode()))


def cast(of: Any) -> Any:
    """Return the kernel as a function: the cast that cuda.h allows."""
    return cu.CUfunction(int(of))


def versions_and_limits() -> tuple[int, ...]:
    begin()
    function, of_library = kernel("step_1ms"), library_kernel("step_1ms")
    versions = {take(cu.cuFuncGetAttribute(which, function)) for which in (PTX, BINARY)}
    versions |= {take(cu.cuKernelGetAttribute(which, of_library, 0)) for which in (PTX, BINARY)}
    (version,) = versions
    return version, *(take(cu.cuDeviceGetAttribute(which, 0)) for which in LIMITS)


@pytest.mark.parametrize("card", CARDS)
def test_a_function_says_the_version_of_its_card_and_the_card_its_own_limits(
    card: str, make_machine: Callable[..., Machine]
) -> None:
    """Hold to cuFuncGetAttribute and cuKernelGetAttribute: PTX_VERSION and BINARY_VERSION, "major * 10 + minor"."""
    with make_machine(f"1x{card}").client() as client:
        assert client.call(versions_and_limits) == CARDS[card]


def defaults_of_function_and_kernel() -> tuple[list[int], list[int]]:
    begin()
    function, of_library = kernel("step_1ms"), library_kernel("step_1ms")
    which = [ATTRIBUTE(number) for number in range(16)]
    return (
        [take(cu.cuFuncGetAttribute(one, function)) for one in which],
        [take(cu.cuKernelGetAttribute(one, of_library, 0)) for one in which],
    )


def test_a_kernel_has_the_same_defaults_as_a_function(make_machine: Callable[..., Machine]) -> None:
    """Hold to cuKernelGetAttribute: it has each attribute of cuFuncGetAttribute (1024 threads, 48 KiB)."""
    with make_machine("1xA100-40GB").client() as client:
        function, of_library = client.call(defaults_of_function_and_kernel)

    assert function == of_library == [1024, 0, 0, 0, 32, 80, 80, 0, 48 * KIB, -1, 0, 0, 0, 0, 0, 0]


def who_wins() -> dict[str, int]:
    begin()
    of_library = library_kernel("step_1ms")
    take(cu.cuKernelSetAttribute(DYNAMIC_SHARED, 0, of_library, 0))
    set_to_nothing = take(cu.cuKernelGetAttribute(DYNAMIC_SHARED, of_library, 0))
    take(cu.cuKernelSetAttribute(DYNAMIC_SHARED, 60 * KIB, of_library, 0))
    function = take(cu.cuKernelGetFunction(of_library))
    inherited = take(cu.cuFuncGetAttribute(DYNAMIC_SHARED, function))
    take(cu.cuFuncSetAttribute(function, DYNAMIC_SHARED, 100 * KIB))
    take(cu.cuKernelSetAttribute(DYNAMIC_SHARED, 70 * KIB, of_library, 0))
    return {
        "nothing": set_to_nothing,
        "inherited": inherited,
        "function": take(cu.cuFuncGetAttribute(DYNAMIC_SHARED, function)),
        "kernel": take(cu.cuKernelGetAttribute(DYNAMIC_SHARED, of_library, 0)),
        "other device": take(cu.cuKernelGetAttribute(DYNAMIC_SHARED, of_library, 1)),
    }


def test_a_function_s_own_attribute_wins_over_its_kernel_s_and_a_kernel_s_is_of_one_device(
    make_machine: Callable[..., Machine],
) -> None:
    """Hold to cuKernelSetAttribute: what cuFuncSetAttribute set overrides it "irrespective" of the order."""
    with make_machine("2xA100-40GB").client() as client:
        assert client.call(who_wins) == {
            "nothing": 0,
            "inherited": 60 * KIB,
            "function": 100 * KIB,
            "kernel": 70 * KIB,
            "other device": 48 * KIB,
        }


def beyond_the_card(opt_in: int) -> list[str]:
    begin()
    function, of_library = kernel("step_1us"), library_kernel("step_1us")
    shared = (1, 1, 1, 1, 1, 1)
    return [
        name(cu.cuLaunchKernel(function, *shared, opt_in, 0, 0, 0)),
        name(cu.cuFuncSetAttribute(function, DYNAMIC_SHARED, opt_in + 1)),
        name(cu.cuKernelSetAttribute(DYNAMIC_SHARED, opt_in + 1, of_library, 0)),
        name(cu.cuFuncSetAttribute(function, DYNAMIC_SHARED, opt_in)),
        name(cu.cuKernelSetAttribute(DYNAMIC_SHARED, opt_in, of_library, 0)),
        name(cu.cuLaunchKernel(function, *shared, opt_in, 0, 0, 0)),
        name(cu.cuLaunchKernel(cast(of_library), *shared, opt_in, 0, 0, 0)),
        name(cu.cuLaunchKernel(function, *shared, opt_in + 1, 0, 0, 0)),
        name(cu.cuFuncSetAttribute(function, BINARY, 90)),
    ]


@pytest.mark.parametrize("card", ["T4-16GB", "A100-40GB", "H100-80GB"])
def test_more_than_48_kib_of_shared_memory_must_be_opted_in_and_fit_the_card(
    card: str, make_machine: Callable[..., Machine]
) -> None:
    """Hold to cuFuncSetAttribute: MAX_DYNAMIC_SHARED_SIZE_BYTES "cannot exceed MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"."""
    refused, fine = "INVALID_VALUE", "SUCCESS"
    with make_machine(f"1x{card}").client() as client:
        answers = client.call(beyond_the_card, CARDS[card][1])

    assert answers == [refused, refused, refused, fine, fine, fine, fine, refused, refused]


OCCUPANCY = (
    ("cuOccupancyMaxActiveBlocksPerMultiprocessor", (256, 0)),
    ("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", (1024, 0, 0)),
    ("cuOccupancyAvailableDynamicSMemPerBlock", (2, 512)),
)


def occupancy() -> dict[str, Any]:
    begin()
    function, of_library = kernel("step_1ms"), library_kernel("step_1ms")
    found: dict[str, Any] = {}
    for call, arguments in OCCUPANCY:
        answers = {take(getattr(cu, call)(one, *arguments)) for one in (function, cast(of_library))}
        (found[call],) = answers
    for one in (function, cast(of_library)):
        found["potential"] = take(cu.cuOccupancyMaxPotentialBlockSize(one, None, 0, 0))
    found["stranger"] = name(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(cu.CUfunction(int(begin())), 256, 0))
    take(cu.cuLaunchCooperativeKernel(cast(of_library), 1, 1, 1, 1, 1, 1, 0, 0, 0))
    take(launch(cast(of_library)))
    found["attribute"] = name(cu.cuFuncGetAttribute(BINARY, cu.CUfunction(int(begin()))))
    return found


def test_occupancy_takes_a_kernel_that_is_cast_to_a_function(make_machine: Callable[..., Machine]) -> None:
    """Hold to cuOccupancy…: "can also be used with context-less kernel CUkernel … by casting to CUfunction"."""
    with make_machine("1xA100-40GB").client() as client:
        found = client.call(occupancy)

    assert found == {
        "cuOccupancyMaxActiveBlocksPerMultiprocessor": 8,
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": 2,
        "cuOccupancyAvailableDynamicSMemPerBlock": 48 * KIB,
        "potential": (216, 1024),
        "stranger": "INVALID_HANDLE",
        "attribute": "INVALID_HANDLE",
    }


def blocks_with_shared_memory() -> list[int]:
    begin()
    function = kernel("step_1ms")
    take(cu.cuFuncSetAttribute(function, DYNAMIC_SHARED, 163 * KIB))
    sizes = (0, 16 * KIB, 40 * KIB, 163 * KIB, 164 * KIB)
    return [take(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, 32, size)) for size in sizes]


def test_shared_memory_bounds_the_blocks_on_a_multiprocessor(make_machine: Callable[..., Machine]) -> None:
    """Compute capability 8.0: 164 KiB a multiprocessor, 1 KiB of which each block takes for itself, 32 blocks."""
    with make_machine("1xA100-40GB").client() as client:
        assert client.call(blocks_with_shared_memory) == [32, 9, 4, 1, 0]


def private_tables() -> list[str]:
    begin()
    library = ctypes.CDLL("libcuda.so.1")
    answers = []
    for seed in range(64):
        table, wanted = ctypes.c_void_p(), (ctypes.c_ubyte * 16)(*((seed * 37 + i * 11) % 256 for i in range(16)))
        answers.append(f"{library.cuGetExportTable(ctypes.byref(table), wanted)} {table.value}")
    return answers


def test_no_private_table_of_nvidia_is_answered(machine: Machine) -> None:
    """Leave cuGetExportTable alone: it is in no document, and the runtime's check behind it is not ours to answer."""
    with machine.client() as client:
        answers = set(client.call(private_tables))

    assert answers == {"500 None"}
