"""Memory and events between processes, as cuda.h describes them: handles, events, descriptors, pools.

Each test names the function whose comment in cuda.h says what is expected.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gpu_machine import Client, Machine

cu: Any = pytest.importorskip("cuda.bindings.driver")
from tests.simgpu import clients  # noqa: E402
from tests.simgpu.clients import begin, kernel, launch, name, take  # noqa: E402

SIZE = 3 << 20
WORDS = SIZE // 4
LAZY = 1
DESCRIPTOR = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
POINTER = cu.CUpointer_attribute
KEPT: dict[str, Any] = {}
"""What this client keeps from one call to the next."""


@pytest.fixture
def two(make_machine: Callable[..., Machine]) -> Iterator[tuple[Client, Client]]:
    machine = make_machine("2xA100-40GB")
    with machine.client("owner") as owner, machine.client("guest") as guest:
        yield owner, guest


def words_at(pointer: int, count: int = 2) -> list[int]:
    into = bytearray(4 * count)
    take(cu.cuMemcpyDtoH(into, pointer, len(into)))
    return [int.from_bytes(into[at : at + 4], "little") for at in range(0, len(into), 4)]


def content(handle: Any) -> bytes:
    """Return the 64 bytes that a program sends to the other process."""
    return ctypes.string_at(int(handle.getPtr()), 64)


def filled(handle: Any, with_bytes: bytes) -> Any:
    ctypes.memmove(int(handle.getPtr()), with_bytes, 64)
    return handle


# ---- memory


def own_memory(value: int) -> bytes:
    begin()
    KEPT["memory"] = pointer = take(cu.cuMemAlloc(SIZE))
    take(cu.cuMemsetD32(pointer, value, WORDS))
    handle = take(cu.cuIpcGetMemHandle(pointer))
    assert content(take(cu.cuIpcGetMemHandle(pointer))) == content(handle)
    return content(handle)


def handle_of(reserved: bytes) -> Any:
    return filled(cu.CUipcMemHandle(), reserved)


def open_memory(reserved: bytes, device: int = 0) -> list[int]:
    begin(device)
    KEPT["opened"] = pointer = take(cu.cuIpcOpenMemHandle(handle_of(reserved), LAZY))
    return words_at(pointer)


def try_to_open(reserved: bytes, flags: int = LAZY) -> str:
    begin()
    return name(cu.cuIpcOpenMemHandle(handle_of(reserved), flags))


def fill_opened(value: int) -> None:
    take(cu.cuMemsetD32(KEPT["opened"], value, WORDS))


def read_own() -> list[int]:
    return words_at(int(KEPT["memory"]))


def close_opened() -> list[str]:
    answers = [name(cu.cuMemFree(KEPT["opened"])), name(cu.cuIpcCloseMemHandle(KEPT["opened"]))]
    return [*answers, name(cu.cuIpcCloseMemHandle(KEPT["opened"]))]


def free_own() -> None:
    take(cu.cuMemFree(KEPT["memory"]))


def test_memory_of_one_process_is_opened_and_written_by_another(two: tuple[Client, Client]) -> None:
    """Hold to cuIpcGetMemHandle, cuIpcOpenMemHandle, cuIpcCloseMemHandle: the same bytes, and one close."""
    owner, guest = two
    handle = owner.call(own_memory, 7)
    before = owner.call(clients.free_megabytes)

    assert guest.call(open_memory, handle) == [7, 7]
    guest.call(fill_opened, 8)

    assert owner.call(read_own) == [8, 8]
    assert guest.call(clients.free_megabytes) == before - 300, "only the guest's context is new on the card"
    assert guest.call(close_opened) == ["INVALID_VALUE", "SUCCESS", "INVALID_VALUE"]
    assert owner.call(read_own) == [8, 8]


def open_twice(reserved: bytes) -> tuple[bool, list[str]]:
    begin()
    one, other = (take(cu.cuIpcOpenMemHandle(handle_of(reserved), LAZY)) for _ in range(2))
    return int(one) == int(other), [name(cu.cuIpcCloseMemHandle(one)) for _ in range(3)]


def test_a_handle_that_is_opened_twice_gives_one_pointer_and_is_closed_twice(two: tuple[Client, Client]) -> None:
    """Hold to cuIpcOpenMemHandle: "the reference count … is incremented by 1", the pointer is the existing one."""
    owner, guest = two

    assert guest.call(open_twice, owner.call(own_memory, 1)) == (True, ["SUCCESS", "SUCCESS", "INVALID_VALUE"])


def device_of_opened() -> int:
    return int(take(cu.cuPointerGetAttribute(POINTER.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, KEPT["opened"])))


def test_opened_memory_lies_on_its_owner_s_device(two: tuple[Client, Client]) -> None:
    owner, guest = two

    assert guest.call(open_memory, owner.call(own_memory, 5), 1) == [5, 5]
    assert guest.call(device_of_opened) == 0


def test_wrong_handles_are_refused(two: tuple[Client, Client]) -> None:
    """Hold to cuIpcOpenMemHandle: flags must be LAZY_ENABLE_PEER_ACCESS; a process opens no handle of its own."""
    owner, guest = two
    handle = owner.call(own_memory, 7)

    assert guest.call(try_to_open, handle, 0) == "INVALID_VALUE"
    assert guest.call(try_to_open, b"\1" * 64) == "INVALID_HANDLE"
    assert owner.call(try_to_open, handle) == "INVALID_CONTEXT"
    owner.call(free_own)
    assert guest.call(try_to_open, handle) == "INVALID_HANDLE"


def test_a_handle_ends_with_its_process(two: tuple[Client, Client]) -> None:
    owner, guest = two
    handle = owner.call(own_memory, 7)
    owner.kill()

    assert guest.call(try_to_open, handle) == "INVALID_HANDLE"


def what_has_a_handle() -> dict[str, tuple[str, int]]:
    begin()
    of_virtual = physical_memory()
    memory = {
        "plain": take(cu.cuMemAlloc(SIZE)),
        "managed": take(cu.cuMemAllocManaged(SIZE, 1)),
        "pooled": take(cu.cuMemAllocAsync(SIZE, 0)),
        "pinned": take(cu.cuMemHostAlloc(SIZE, 0)),
        "virtual": of_virtual,
    }
    capable = POINTER.CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
    return {
        kind: (name(cu.cuIpcGetMemHandle(pointer)), int(take(cu.cuPointerGetAttribute(capable, pointer))))
        for kind, pointer in memory.items()
    }


def test_only_plain_memory_has_a_handle(machine: Machine) -> None:
    """Hold to cuIpcGetMemHandle: memory "created with cuMemAlloc"; all other is refused, managed memory too."""
    with machine.client() as client:
        answers = client.call(what_has_a_handle)

    refused = ("INVALID_VALUE", 0)
    assert answers == {
        "plain": ("SUCCESS", 1), **dict.fromkeys(("managed", "pooled", "pinned", "virtual"), refused)
    }  # fmt: skip


# ---- events


def own_event() -> bytes:
    begin()
    interprocess = cu.CUevent_flags.CU_EVENT_INTERPROCESS | cu.CUevent_flags.CU_EVENT_DISABLE_TIMING
    KEPT["event"] = event = take(cu.cuEventCreate(interprocess))
    return content(take(cu.cuIpcGetEventHandle(event)))


def event_handle(reserved: bytes) -> Any:
    return filled(cu.CUipcEventHandle(), reserved)


def open_event(reserved: bytes) -> None:
    begin()
    KEPT["event"] = take(cu.cuIpcOpenEventHandle(event_handle(reserved)))


def wait_for_event() -> list[str]:
    event = KEPT["event"]
    take(cu.cuStreamWaitEvent(0, event, 0))
    answers = [name(cu.cuEventQuery(event)), name(cu.cuStreamQuery(0))]
    take(cu.cuEventSynchronize(event))
    take(cu.cuStreamSynchronize(0))
    return [*answers, name(cu.cuEventQuery(event)), name(cu.cuStreamQuery(0))]


def record_and_query(kernel_name: str) -> str:
    take(launch(kernel(kernel_name)))
    take(cu.cuEventRecord(KEPT["event"], 0))
    return name(cu.cuEventQuery(KEPT["event"]))


def query_own() -> str:
    return name(cu.cuEventQuery(KEPT["event"]))


def synchronize_own() -> str:
    take(cu.cuEventSynchronize(KEPT["event"]))
    return name(cu.cuEventQuery(KEPT["event"]))


def test_an_event_is_waited_for_and_recorded_in_either_process(two: tuple[Client, Client]) -> None:
    """Hold to cuIpcGetEventHandle: record, synchronise, wait and query "may be used in either process"."""
    owner, guest = two
    guest.call(open_event, owner.call(own_event))
    assert guest.call(query_own) == "SUCCESS", "never recorded"
    assert owner.call(record_and_query, "step_300ms") == "NOT_READY"

    assert guest.call(wait_for_event) == ["NOT_READY", "NOT_READY", "SUCCESS", "SUCCESS"]
    assert guest.call(record_and_query, "step_300ms") == "NOT_READY"
    assert owner.call(query_own) == "NOT_READY"
    assert owner.call(synchronize_own) == "SUCCESS"


def test_an_event_of_a_process_that_was_killed_has_passed(two: tuple[Client, Client]) -> None:
    owner, guest = two
    guest.call(open_event, owner.call(own_event))
    assert owner.call(record_and_query, "step_60s") == "NOT_READY"
    guest.start(wait_for_event)
    owner.kill()

    assert guest.result()[-1] == "SUCCESS"


def plain_event_and_foreign_handle(reserved: bytes) -> list[str]:
    begin()
    plain = take(cu.cuEventCreate(2))
    opened = take(cu.cuIpcOpenEventHandle(event_handle(reserved)))
    timed = take(cu.cuEventCreate(0))
    take(cu.cuEventRecord(timed, 0))
    take(cu.cuCtxSynchronize())
    return [
        name(cu.cuIpcGetEventHandle(plain)),
        name(cu.cuIpcGetEventHandle(opened)),
        name(cu.cuIpcOpenEventHandle(event_handle(b"\2" * 64))),
        name(cu.cuEventCreate(4)),
        name(cu.cuEventElapsedTime(opened, timed)),
    ]


def test_an_event_without_the_flag_has_no_handle_and_an_opened_one_no_times(two: tuple[Client, Client]) -> None:
    """Hold to cuIpcGetEventHandle: the event was made with INTERPROCESS and DISABLE_TIMING."""
    owner, guest = two
    answers = guest.call(plain_event_and_foreign_handle, owner.call(own_event))

    assert answers == ["INVALID_HANDLE", "INVALID_HANDLE", "INVALID_HANDLE", "INVALID_VALUE", "INVALID_HANDLE"]


# ---- physical memory and pools, which go as descriptors


def physical_memory(handle: Any = None) -> Any:
    """Map physical memory, new or of this handle, and return its address."""
    prop = cu.CUmemAllocationProp()
    prop.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    prop.location.id = 0
    prop.requestedHandleTypes = DESCRIPTOR
    bytes_ = 2 << 20
    KEPT["physical"] = handle = handle or take(cu.cuMemCreate(bytes_, prop, 0))
    address = take(cu.cuMemAddressReserve(bytes_, 0, 0, 0))
    take(cu.cuMemMap(address, bytes_, 0, handle, 0))
    access = cu.CUmemAccessDesc()
    access.location = prop.location
    access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    take(cu.cuMemSetAccess(address, bytes_, [access], 1))
    return address


def share_physical(value: int) -> int:
    begin()
    KEPT["memory"] = address = physical_memory()
    take(cu.cuMemsetD32(address, value, 16))
    return int(take(cu.cuMemExportToShareableHandle(KEPT["physical"], DESCRIPTOR, 0)))


def taken_from(process: int, descriptor: int) -> int:
    """Return a copy of another process' descriptor, as PyTorch takes it (pidfd_getfd); here it is opened anew."""
    return os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR)


def import_physical(process: int, descriptor: int, value: int) -> list[int]:
    begin()
    shared = taken_from(process, descriptor)
    handle = take(cu.cuMemImportFromShareableHandle(shared, DESCRIPTOR))
    os.close(shared)
    assert take(cu.cuMemGetAllocationPropertiesFromHandle(handle)).location.id == 0
    address = physical_memory(handle)
    take(cu.cuMemRelease(handle))
    found = words_at(address)
    take(cu.cuMemsetD32(address, value, 16))
    return found


def test_physical_memory_is_imported_from_a_descriptor(two: tuple[Client, Client]) -> None:
    """Hold to cuMemExportToShareableHandle and its import: mapped in both, the same bytes, paid once."""
    owner, guest = two
    descriptor = owner.call(share_physical, 21)
    before = owner.call(clients.free_megabytes)

    assert guest.call(import_physical, owner.process.pid, descriptor, 22) == [21, 21]
    assert owner.call(read_own) == [22, 22]
    assert owner.call(clients.free_megabytes) == before - 300


def import_something_else() -> list[str]:
    begin()
    with Path("/dev/null").open("rb") as nothing:
        return [
            name(cu.cuMemImportFromShareableHandle(nothing.fileno(), DESCRIPTOR)),
            name(cu.cuMemPoolImportFromShareableHandle(nothing.fileno(), DESCRIPTOR, 0)),
        ]


def test_a_descriptor_of_another_file_is_refused(machine: Machine) -> None:
    with machine.client() as client:
        assert client.call(import_something_else) == ["INVALID_VALUE", "INVALID_VALUE"]


def new_pool(handle_type: Any) -> Any:
    props = cu.CUmemPoolProps()
    props.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    props.handleTypes = handle_type
    props.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    props.location.id = 0
    return take(cu.cuMemPoolCreate(props))


def share_pool(value: int) -> tuple[int, bytes]:
    begin()
    pool = new_pool(DESCRIPTOR)
    KEPT["memory"] = pointer = take(cu.cuMemAllocFromPoolAsync(SIZE, pool, 0))
    take(cu.cuMemsetD32(pointer, value, WORDS))
    assert name(cu.cuMemPoolExportPointer(pointer)) == "INVALID_VALUE", "the pool is not shared yet"
    descriptor = take(cu.cuMemPoolExportToShareableHandle(pool, DESCRIPTOR, 0))
    return int(descriptor), content(take(cu.cuMemPoolExportPointer(pointer)))


def import_pool(process: int, descriptor: int, exported: bytes, value: int) -> tuple[list[int], list[str]]:
    begin()
    shared = taken_from(process, descriptor)
    pool = take(cu.cuMemPoolImportFromShareableHandle(shared, DESCRIPTOR, 0))
    os.close(shared)
    data = filled(cu.CUmemPoolPtrExportData(), exported)
    pointer = take(cu.cuMemPoolImportPointer(pool, data))
    found = words_at(pointer)
    take(cu.cuMemsetD32(pointer, value, WORDS))
    return found, [
        name(cu.cuMemAllocFromPoolAsync(512, pool, 0)),
        name(cu.cuDeviceSetMemPool(0, pool)),
        name(cu.cuMemPoolImportPointer(new_pool(DESCRIPTOR), data)),
        name(cu.cuMemFreeAsync(pointer, 0)),
        name(cu.cuMemFree(pointer)),
    ]


def test_a_pool_and_its_allocations_are_imported(two: tuple[Client, Client]) -> None:
    """Hold to cuMemPoolImportFromShareableHandle: "imported memory pools do not support creating new allocations"."""
    owner, guest = two
    descriptor, exported = owner.call(share_pool, 31)

    found, answers = guest.call(import_pool, owner.process.pid, descriptor, exported, 32)

    assert found == [31, 31]
    assert answers == ["INVALID_VALUE", "INVALID_VALUE", "INVALID_VALUE", "SUCCESS", "INVALID_VALUE"]
    assert owner.call(read_own) == [32, 32]


def export_unshareable_pools() -> list[str]:
    begin()
    pools = [take(cu.cuDeviceGetDefaultMemPool(0)), new_pool(cu.CUmemAllocationHandleType(0))]
    return [name(cu.cuMemPoolExportToShareableHandle(pool, DESCRIPTOR, 0)) for pool in pools]


def test_a_pool_without_a_handle_type_cannot_be_exported(machine: Machine) -> None:
    """Hold to cuMemPoolExportToShareableHandle: "create a mempool with a handle type other than NONE"."""
    with machine.client() as client:
        assert client.call(export_unshareable_pools) == ["INVALID_VALUE", "INVALID_VALUE"]


# ---- what pointers are


def pointers() -> dict[str, dict[str, int]]:
    begin(0)  # physical memory is charged to a context of its device
    begin(1)
    plain, managed = take(cu.cuMemAlloc(SIZE)), take(cu.cuMemAllocManaged(SIZE, 1))
    pinned, pooled = take(cu.cuMemHostAlloc(SIZE, 0)), take(cu.cuMemAllocAsync(SIZE, 0))
    mapped = physical_memory()
    reserved = take(cu.cuMemAddressReserve(2 << 20, 0, 0, 0))
    asked = {
        "type": POINTER.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        "managed": POINTER.CU_POINTER_ATTRIBUTE_IS_MANAGED,
        "device": POINTER.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        "mapped": POINTER.CU_POINTER_ATTRIBUTE_MAPPED,
        "size": POINTER.CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    }
    memory = {"plain": plain, "managed": managed, "pinned": pinned, "pooled": pooled, "virtual": mapped}
    for kind, pointer in memory.items():
        inside = int(pointer) + 4096
        assert int(take(cu.cuPointerGetAttribute(POINTER.CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inside))) == inside
        start = take(cu.cuPointerGetAttribute(POINTER.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside))
        assert int(start) == int(pointer), kind
    return {
        kind: {what: int(take(cu.cuPointerGetAttribute(which, pointer))) for what, which in asked.items()}
        for kind, pointer in {**memory, "reserved": reserved}.items()
    }


def test_a_pointer_says_what_it_is(make_machine: Callable[..., Machine]) -> None:
    """Hold to cuPointerGetAttribute: HOST is 1, DEVICE is 2 (of managed memory too), and the whole range."""
    with make_machine("2xA100-40GB").client() as client:
        found = client.call(pointers)

    plain = {"type": 2, "managed": 0, "device": 1, "mapped": 1, "size": SIZE}
    assert found == {
        "plain": plain,
        "managed": plain | {"managed": 1},
        "pinned": plain | {"type": 1},
        "pooled": plain,
        "virtual": plain | {"device": 0, "size": 2 << 20},
        "reserved": plain | {"device": 0, "size": 2 << 20, "mapped": 0},
    }


def unknown_pointer() -> tuple[list[str], list[int]]:
    begin()
    plain = take(cu.cuMemAlloc(SIZE))
    which = [
        POINTER.CU_POINTER_ATTRIBUTE_IS_MANAGED,
        POINTER.CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        POINTER.CU_POINTER_ATTRIBUTE_BUFFER_ID,
    ]
    alone = [name(cu.cuPointerGetAttribute(one, 4096)) for one in which]
    alone.append(name(cu.cuPointerGetAttribute(POINTER.CU_POINTER_ATTRIBUTE_HOST_POINTER, plain)))
    return alone, [int(one) for one in take(cu.cuPointerGetAttributes(len(which), which, 4096))]


def test_of_an_unknown_pointer_one_attribute_is_an_error_and_a_list_of_them_is_nothing(machine: Machine) -> None:
    """Hold to cuPointerGetAttribute: INVALID_VALUE; and to cuPointerGetAttributes: "NULL" for each."""
    with machine.client() as client:
        assert client.call(unknown_pointer) == (["INVALID_VALUE"] * 4, [0, 0, 0])
