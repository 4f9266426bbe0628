"""NVML's errors as the rooms see them; the functions of `pynvml` are the test's.

The real calls on the software GPU's library are in tests/deviceplugin/gpus/test_cards.py.
"""

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import pynvml
import pytest

from adapters import nvml

GPU = "a handle"
TOLD: dict[str, Any] = {
    "UUID": b"GPU-a",
    "Name": "L4",
    "CudaComputeCapability": (8, 9),
    "PciInfo": SimpleNamespace(busId=b"00000000:01:00.0"),
    "MemoryInfo": SimpleNamespace(total=8, used=3),
    "NumaNodeId": 1,
    "MinorNumber": 0,
    "MigMode": (0, 0),
    "PowerUsage": 72_000,
    "UtilizationRates": SimpleNamespace(gpu=50),
    "Temperature": 40,
    "ComputeRunningProcesses": [SimpleNamespace(pid=7)],
    "MaxMigDeviceCount": 2,
}
"""`nvmlDeviceGet…` and its answer."""


def refuse(code: int) -> Callable[..., NoReturn]:
    def function(*_arguments: object) -> NoReturn:
        raise pynvml.NVMLError(code)

    return function


class Driver:
    """Answer as a GPU that knows everything, until a test says otherwise."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        for name, value in TOLD.items():
            self.answers(name, value)

    def answers(self, name: str, value: object) -> None:
        self._patch.setattr(pynvml, f"nvmlDeviceGet{name}", lambda *_arguments: value)

    def refuses(self, name: str, code: int) -> None:
        self._patch.setattr(pynvml, f"nvmlDeviceGet{name}", refuse(code))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    return Driver(monkeypatch)


@pytest.mark.parametrize(
    ("code", "answers"),
    [
        pytest.param(pynvml.NVML_ERROR_NOT_SUPPORTED, True, id="a card without memory of its own, as GB10"),
        pytest.param(pynvml.NVML_ERROR_GPU_IS_LOST, False, id="off the bus"),
        pytest.param(pynvml.NVML_ERROR_INVALID_ARGUMENT, False, id="a handle of before"),
        pytest.param(pynvml.NVML_ERROR_UNKNOWN, False, id="who knows"),
    ],
)
def test_what_counts_as_an_answer(code: int, answers: bool, driver: Driver) -> None:
    driver.refuses("MemoryInfo", code)
    with contextlib.nullcontext() if answers else pytest.raises(nvml.NoAnswer):
        nvml.check(GPU)


@pytest.mark.parametrize(
    ("question", "field", "unknown"),
    [
        ("CudaComputeCapability", "compute", ""),
        ("PciInfo", "pci", ""),
        ("MemoryInfo", "memory_bytes", 0),
        ("MigMode", "mig", False),
    ],
)
@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND])
def test_a_figure_that_an_old_driver_lacks_is_unknown(
    question: str, field: str, unknown: object, code: int, driver: Driver
) -> None:
    driver.refuses(question, code)

    assert getattr(nvml.describe(GPU), field) == unknown


@pytest.mark.parametrize("question", ["UUID", "Name", "CudaComputeCapability", "PciInfo", "MemoryInfo", "MigMode"])
def test_a_lost_gpu_is_not_described(question: str, driver: Driver) -> None:
    driver.refuses(question, pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(nvml.NoAnswer):
        nvml.describe(GPU)


def test_a_gpu_is_described(driver: Driver) -> None:
    driver.answers("MigMode", (1, 1))

    assert nvml.describe(GPU) == nvml.Description(
        uuid="GPU-a", model="L4", memory_bytes=8, compute="8.9", pci="00000000:01:00.0", numa=1, minor=0, mig=True
    )


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        ("MemoryInfo", {"memory_total", "memory_used"}),
        ("PowerUsage", {"power"}),
        ("UtilizationRates", {"utilization"}),
        ("Temperature", {"temperature"}),
    ],
)
def test_a_figure_that_is_not_told_is_none_and_the_others_stay(
    question: str, missing: set[str], driver: Driver
) -> None:
    driver.refuses(question, pynvml.NVML_ERROR_GPU_IS_LOST)
    found = nvml.read_figures(GPU)
    figures: dict[str, Any] = {
        "memory_total": 8,
        "memory_used": 3,
        "temperature": 40,
        "power": 72.0,
        "utilization": 0.5,
    }

    assert found == nvml.Figures(**{name: None if name in missing else value for name, value in figures.items()})


def test_processes_are_listed_and_none_where_they_are_not_told(driver: Driver) -> None:
    assert nvml.list_processes(GPU) == {7}
    driver.refuses("ComputeRunningProcesses", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert nvml.list_processes(GPU) == set()


@pytest.mark.parametrize(("mode", "expected"), [((0, 0), []), ((1, 0), ["part 1"])], ids=["no MIG", "one instance"])
def test_instances_are_listed_without_empty_places(
    mode: tuple[int, int], expected: list[str], driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.answers("MigMode", mode)
    at = {1: lambda: "part 1"}
    monkeypatch.setattr(
        pynvml,
        "nvmlDeviceGetMigDeviceHandleByIndex",
        lambda _handle, place: at.get(place, refuse(pynvml.NVML_ERROR_NOT_FOUND))(),
    )

    assert nvml.list_instances(GPU) == expected


def test_a_library_whose_count_fails_is_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: calls.append("init"))
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: calls.append("shutdown"))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", refuse(pynvml.NVML_ERROR_UNINITIALIZED))
    library = nvml.Library()
    for _ in range(2):
        with pytest.raises(nvml.NoAnswer):
            library.open()

    assert calls == ["init", "shutdown"] * 2
