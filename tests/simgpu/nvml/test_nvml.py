"""NVIDIA's `pynvml` on our NVML: what it lists, what follows the load, faults and their events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from tests.fakes.gpu_machine import BUILD, Machine, in_own_process_namespace
from tests.simgpu import clients

nv: Any = pytest.importorskip("pynvml")

THREE = "2xA100-40GB,1xT4-16GB"


def handles() -> list[Any]:
    nv.nvmlInit()
    return [nv.nvmlDeviceGetHandleByIndex(index) for index in range(nv.nvmlDeviceGetCount())]


def facts() -> list[dict[str, Any]]:
    return [
        {
            "name": nv.nvmlDeviceGetName(handle),
            "uuid": nv.nvmlDeviceGetUUID(handle),
            "index": nv.nvmlDeviceGetIndex(handle),
            "bus": nv.nvmlDeviceGetPciInfo(handle).bus,
            "numa": nv.nvmlDeviceGetNumaNodeId(handle),
            "affinity": list(nv.nvmlDeviceGetMemoryAffinity(handle, 1, 0)),
            "capability": nv.nvmlDeviceGetCudaComputeCapability(handle),
            "total": nv.nvmlDeviceGetMemoryInfo(handle).total,
            "total_v2": nv.nvmlDeviceGetMemoryInfo(handle, version=nv.nvmlMemory_v2).total,
            "temperature": nv.nvmlDeviceGetTemperature(handle, 0),
            "power": nv.nvmlDeviceGetPowerUsage(handle),
            "limit": nv.nvmlDeviceGetPowerManagementLimit(handle),
        }
        for handle in handles()
    ]


def test_devices_are_listed_with_all_their_facts(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine(THREE)
    listed = machine.tool("devices").stdout.split()
    with machine.client() as client:
        found = client.call(facts)

    assert [one["name"] for one in found] == ["NVIDIA A100-SXM4-40GB"] * 2 + ["Tesla T4"]
    assert [one["uuid"] for one in found] == [word for word in listed if word.startswith("GPU-")]
    assert [one["capability"] for one in found] == [(8, 0), (8, 0), (7, 5)]
    assert [one["total"] for one in found] == [one["total_v2"] for one in found] == [40 << 30, 40 << 30, 16 << 30]
    assert len({one["bus"] for one in found}) == 3
    assert [one["numa"] for one in found] == [0, 1, 0]
    assert [one["affinity"] for one in found] == [[1], [2], [1]]
    assert all(20 < one["temperature"] < 50 and 0 < one["power"] < one["limit"] for one in found)


def same_handle() -> None:
    _, _, last = handles()
    assert nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByUUID(nv.nvmlDeviceGetUUID(last))) == 2
    assert nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByPciBusId(nv.nvmlDeviceGetPciInfo(last).busId)) == 2
    for ask, wrong in ((nv.nvmlDeviceGetHandleByUUID, "GPU-none"), (nv.nvmlDeviceGetHandleByIndex, 3)):
        with pytest.raises(nv.NVMLError):
            ask(wrong)
    nv.nvmlShutdown()
    with pytest.raises(nv.NVMLError_Uninitialized):
        nv.nvmlDeviceGetCount()


def mig() -> list[Any]:
    answers: list[Any] = []
    for handle in handles():
        try:
            answers.append(nv.nvmlDeviceGetMigMode(handle))
        except nv.NVMLError_NotSupported:
            answers.append("not supported")
    return answers


def test_handles_by_every_name(make_machine: Callable[..., Machine]) -> None:
    with make_machine(THREE).client() as client:
        client.call(same_handle)


def test_mig_mode(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine(THREE)
    with machine.client() as client:
        assert client.call(mig) == [[0, 0], [0, 0], "not supported"]
        assert machine.tool("mig", "1", "on").returncode == 0
        assert client.call(mig) == [[0, 0], [1, 1], "not supported"]


def load(index: int) -> dict[str, Any]:
    handle = handles()[index]
    processes = nv.nvmlDeviceGetComputeRunningProcesses(handle)
    return {
        "busy": nv.nvmlDeviceGetUtilizationRates(handle).gpu,
        "used": nv.nvmlDeviceGetMemoryInfo(handle).used >> 20,
        "temperature": nv.nvmlDeviceGetTemperature(handle, 0),
        "power": nv.nvmlDeviceGetPowerUsage(handle),
        "processes": [(one.pid, one.usedGpuMemory >> 20) for one in processes],
    }


def test_load_memory_and_processes_follow_what_runs(machine: Machine) -> None:
    with machine.client() as monitor, machine.client() as worker:
        idle = monitor.call(load, 0)
        worker.call(clients.allocate, 1000)
        worker.start(clients.run_kernels, "step_100ms", 10)
        time.sleep(0.5)  # NVML looks back a sixth of a second
        busy = monitor.call(load, 0)
        worker.result()

    assert (idle["busy"], idle["used"], idle["processes"]) == (0, 0, [])
    assert busy["busy"] > 90
    assert busy["used"] == 1300
    assert busy["processes"] == [(worker.process.pid, 1300)]
    assert busy["temperature"] > idle["temperature"]
    assert busy["power"] > idle["power"]


COMPUTING = """
import pynvml
pynvml.nvmlInit()
print([one.pid for one in pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(0))])
"""


def test_process_ids_are_of_the_reader_s_namespace_and_unseen_processes_are_left_out(machine: Machine) -> None:
    isolate = in_own_process_namespace()
    ask = [sys.executable, "-c", COMPUTING]
    both = ["sh", "-c", '"$0" --kernel-ms 5 --seconds 30 >/dev/null & read go; "$@"', str(BUILD / "burn"), *ask]
    with (
        subprocess.Popen(
            [*isolate, *both], env=machine.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as container,
        machine.start_burn("--kernel-ms", "5", "--seconds", "30") as neighbour,
    ):
        deadline = time.monotonic() + 10
        while machine.tool("status").stdout.count("(pid ") < 2:
            assert time.monotonic() < deadline, machine.tool("status").stdout
        inner = [one.pid for one in psutil.Process(container.pid).children(recursive=True) if one.name() == "burn"]
        outside = subprocess.run(ask, env=machine.environment(), capture_output=True, text=True, check=True).stdout
        inside, _ = container.communicate("go\n", timeout=20)
        neighbour.kill()

    assert sorted(json.loads(outside)) == sorted([*inner, neighbour.pid])
    assert json.loads(inside) == [2]


def forked_child_asks() -> int:
    handles()
    reading, writing = os.pipe()
    if os.fork() == 0:
        nv.nvmlInit()
        os.write(writing, bytes([nv.nvmlDeviceGetCount()]))
        os._exit(0)
    return os.read(reading, 1)[0]


def test_a_forked_child_can_begin_anew(make_machine: Callable[..., Machine]) -> None:
    with make_machine(THREE).client() as client:
        assert client.call(forked_child_asks) == 3


# ---- faults


def wait_for_event(types: int, timeout: int) -> tuple[int, int, int] | str:
    """Register all devices and wait; return type, data and device of the next event."""
    events = nv.nvmlEventSetCreate()
    for handle in handles():
        nv.nvmlDeviceRegisterEvents(handle, types, events)
    return next_event(events, timeout)


def next_event(events: Any, timeout: int) -> tuple[int, int, int] | str:
    try:
        data = nv.nvmlEventSetWait_v2(events, timeout)
    except nv.NVMLError_Timeout:
        return "timeout"
    found = [nv.nvmlDeviceGetUUID(handle) for handle in handles()]
    return data.eventType, data.eventData, found.index(nv.nvmlDeviceGetUUID(data.device))


def events_of_a_fault(machine: Machine, *fault: str) -> Any:
    with machine.client() as monitor:
        monitor.call(facts)
        monitor.start(wait_for_event, 8, 5000)
        time.sleep(0.5)  # an event before the registration is not told
        assert machine.tool(*fault).returncode == 0
        return monitor.result()


def test_an_xid_arrives_as_an_event_of_its_device(make_machine: Callable[..., Machine]) -> None:
    assert events_of_a_fault(make_machine(THREE), "xid", "2", "48") == (8, 48, 2)


def test_waiting_without_an_event_ends_by_time(machine: Machine) -> None:
    with machine.client() as monitor:
        monitor.call(facts)
        assert monitor.call(wait_for_event, 8, 50) == "timeout"


def lost_answers(index: int) -> tuple[str, str]:
    handle = handles()[index]
    try:
        nv.nvmlDeviceGetUUID(handle)
    except nv.NVMLError as error:
        return type(error).__name__, clients.allocate_name(index)
    return "fine", clients.allocate_name(index)


def test_a_lost_device_fails_every_call_until_it_has_recovered(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine(THREE)
    with machine.client() as client:
        assert client.call(lost_answers, 1) == ("fine", "SUCCESS")
        assert machine.tool("lost", "1").returncode == 0
        assert client.call(lost_answers, 1) == ("NVMLError_GpuIsLost", "DEVICE_UNAVAILABLE")
        assert client.call(lost_answers, 0) == ("fine", "SUCCESS")
        assert machine.tool("recovered", "1").returncode == 0
        assert client.call(lost_answers, 1) == ("fine", "SUCCESS")


def test_a_program_that_waits_on_a_device_that_is_lost_is_told(machine: Machine) -> None:
    program = machine.start_burn("--kernel-ms", "60000", "--count", "1")
    deadline = time.monotonic() + 10
    while "pid" not in machine.tool("status").stdout:
        assert time.monotonic() < deadline
    machine.tool("lost", "0")
    out, _ = program.communicate(timeout=5)

    assert "error=46" in out


@pytest.mark.parametrize(
    ("fault", "key", "value"),
    [(("hot", "0", "91"), "temperature", 91), (("hot", "0"), "temperature", 95), (("busy", "0", "42"), "busy", 42)],
)
def test_faults_that_only_show(fault: tuple[str, ...], key: str, value: int, machine: Machine) -> None:
    with machine.client() as client:
        before = client.call(load, 0)[key]
        machine.tool(*fault)
        assert client.call(load, 0)[key] == value
        machine.tool("recovered", "0")
        assert client.call(load, 0)[key] == before


@pytest.mark.parametrize(
    "wrong", [("xid",), ("xid", "0"), ("xid", "9", "48"), ("hot", "0", "very"), ("mig", "0", "maybe"), ("dance", "0")]
)
def test_the_tool_refuses_what_it_does_not_know(wrong: tuple[str, ...], machine: Machine) -> None:
    refused = machine.tool(*wrong)

    assert refused.returncode == 2
    assert refused.stderr
