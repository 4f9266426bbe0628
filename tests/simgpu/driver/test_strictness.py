"""What a real driver refuses, and what it costs: each test names the document whose words it holds the device to."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.gpu_machine import BUILD, Machine

cu: Any = pytest.importorskip("cuda.bindings.driver")
from tests.simgpu import clients  # noqa: E402
from tests.simgpu.clients import NON_BLOCKING, begin, kernel, launch, name, take  # noqa: E402

PROGRAMS = Path(__file__).parents[1] / "programs"

# ---- events


def foreign_event() -> list[str]:
    first = begin(0)
    event, first_stream = take(cu.cuEventCreate(0)), take(cu.cuStreamCreate(NON_BLOCKING))
    own_again = take(cu.cuCtxCreate(None, 0, 0))
    same_device = take(cu.cuStreamCreate(NON_BLOCKING))
    begin(1)
    other_device = take(cu.cuStreamCreate(NON_BLOCKING))
    answers = [name(cu.cuEventRecord(event, stream)) for stream in (same_device, other_device, 0, first_stream)]
    answers.append(name(cu.cuCtxRecordEvent(own_again, event)))
    answers.append(name(cu.cuCtxRecordEvent(first, event)))
    answers.append(name(cu.cuStreamWaitEvent(other_device, event, 0)))
    return answers


def test_an_event_is_recorded_in_streams_of_its_own_context_only(make_machine: Callable[..., Machine]) -> None:
    """Hold to cuEventRecord: "hEvent and hStream must be from the same context otherwise CUDA_ERROR_INVALID_HANDLE".

    cuCtxRecordEvent says the same; cuStreamWaitEvent: "hEvent may be from a different context or device than hStream".
    """
    with make_machine("2xA100-40GB").client() as client:
        assert client.call(foreign_event) == ["INVALID_HANDLE"] * 3 + [
            "SUCCESS",
            "INVALID_HANDLE",
            "SUCCESS",
            "SUCCESS",
        ]


# ---- green contexts


def green_context() -> tuple[list[str], dict[str, Any]]:
    primary = begin()
    kind = cu.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
    whole = take(cu.cuDeviceGetDevResource(0, kind))
    groups, count, rest = take(cu.cuDevSmResourceSplitByCount(2, whole, 0, 15))
    green = take(cu.cuGreenCtxCreate(take(cu.cuDevResourceGenerateDesc([groups[0]], 1)), 0, 1))
    stream, plain = take(cu.cuGreenCtxStreamCreate(green, NON_BLOCKING, 0)), take(cu.cuStreamCreate(NON_BLOCKING))
    context, of = take(cu.cuStreamGetCtx_v2(stream))
    plain_context, of_plain = take(cu.cuStreamGetCtx_v2(plain))
    event = take(cu.cuEventCreate(0))
    take(launch(kernel("step_1ms"), stream))
    take(cu.cuEventRecord(event, stream))
    take(cu.cuStreamSynchronize(stream))
    facts = {
        "all": whole.sm.smCount,
        "group": groups[0].sm.smCount,
        "groups": count,
        "rest": rest.sm.smCount,
        "of green": take(cu.cuGreenCtxGetDevResource(green, kind)).sm.smCount,
        "is primary": int(context) == int(plain_context) == int(primary),
        "is green": (int(of) == int(green), int(of_plain), int(take(cu.cuStreamGetGreenCtx(stream))) == int(green)),
    }
    refused = [
        name(cu.cuStreamGetCtx(stream)),
        name(cu.cuStreamGetCtx(plain)),
        name(cu.cuGreenCtxStreamCreate(green, 0, 0)),
        name(cu.cuStreamDestroy(stream)),
        name(cu.cuGreenCtxDestroy(green)),
        name(cu.cuGreenCtxDestroy(green)),
        name(cu.cuGreenCtxStreamCreate(green, NON_BLOCKING, 0)),
    ]
    return refused, facts


def test_a_green_context_s_stream_names_it_and_the_old_question_is_refused(
    make_machine: Callable[..., Machine],
) -> None:
    """Hold to cuStreamGetCtx of CUDA 12: NOT_SUPPORTED "for streams created via cuGreenCtxStreamCreate".

    cuStreamGetCtx_v2: "the green context in pGreenCtx and the primary context of the associated device in pCtx".
    """
    with make_machine("1xA100-40GB").client() as client:
        refused, facts = client.call(green_context)

    assert facts == {
        "all": 108, "group": 16, "groups": 2, "rest": 76, "of green": 16, "is primary": True,
        "is green": (True, 0, True),
    }  # fmt: skip
    assert refused == [
        "NOT_SUPPORTED", "SUCCESS", "INVALID_VALUE", "SUCCESS", "SUCCESS", "INVALID_CONTEXT", "INVALID_CONTEXT",
    ]  # fmt: skip


# ---- misuse: what a real driver may crash on


def use_destroyed() -> list[str]:
    begin()
    made = take(cu.cuCtxCreate(None, 0, 0))
    take(cu.cuCtxDestroy(made))
    return [name(cu.cuCtxPushCurrent(made)), name(cu.cuCtxSetCurrent(made)), name(cu.cuCtxPushCurrent(0))]


def test_a_destroyed_context_is_refused_or_ends_the_program_as_the_setting_says(
    make_machine: Callable[..., Machine],
) -> None:
    """Hold to cuCtxDestroy: the caller is "to ensure that no API call issues using ctx while … executing"."""
    machine = make_machine()
    with machine.client() as client:
        assert client.call(use_destroyed) == ["INVALID_CONTEXT"] * 3
    with machine.client(misuse="abort") as client:
        client.start(use_destroyed)
        client.process.join(30)
        assert client.process.exitcode == -6


@pytest.mark.parametrize(("misuse", "code", "said"), [("refuse", 4, ""), ("abort", -6, "after its exit handler")])
def test_a_call_after_the_driver_s_exit_handler_is_refused_or_ends_the_program(
    misuse: str, code: int, said: str, machine: Machine, tmp_path: Path
) -> None:
    """Hold to CUDA_ERROR_DEINITIALIZED: "the CUDA driver is in the process of shutting down"."""
    program = tmp_path / "late"
    subprocess.run(["gcc", "-O2", PROGRAMS / "late.c", "-o", program, f"-L{BUILD}", "-lcuda"], check=True)

    ended = subprocess.run(
        [program], env=machine.environment(misuse=misuse), capture_output=True, text=True, timeout=30
    )

    assert (ended.returncode, said in ended.stderr) == (code, True)


def test_a_word_that_misuse_does_not_know_is_refused(machine: Machine) -> None:
    refused = machine.start_burn("--count", "1", misuse="maybe")

    assert "SIMGPU_MISUSE=maybe cannot be read" in refused.communicate(timeout=30)[1]


# ---- what calls cost


COUNT = 100
COSTS = {"launch": "20us", "event": "30us", "query": "40us"}


def seconds_of_calls() -> dict[str, float]:
    begin()
    function, event, stream = kernel("nothing_0ns"), take(cu.cuEventCreate(0)), take(cu.cuStreamCreate(NON_BLOCKING))
    calls: dict[str, Callable[[], Any]] = {
        "launch": lambda: launch(function, stream),
        "event": lambda: cu.cuEventRecord(event, stream),
        "query": lambda: cu.cuEventQuery(event),
    }
    return {what: min(seconds_of(call) for _ in range(20)) for what, call in calls.items()}


def seconds_of(call: Callable[[], Any]) -> float:
    began = time.monotonic()
    for _ in range(COUNT):
        call()
    return (time.monotonic() - began) / COUNT


def test_launches_events_and_queries_cost_the_host_what_is_set(make_machine: Callable[..., Machine]) -> None:
    settings = {f"{what}_cost": cost for what, cost in COSTS.items()}
    machine = make_machine()
    with machine.client() as free, machine.client(**settings) as costly:
        bare, paid = free.call(seconds_of_calls), costly.call(seconds_of_calls)

    for what, least in (("launch", 20e-6), ("event", 30e-6), ("query", 40e-6)):
        assert paid[what] >= least, what
        assert bare[what] < paid[what], what


# ---- streams that overlap


@pytest.mark.parametrize(("streams", "kernels", "rounds"), [(4, 3, 3), (8, 2, 4), (1, 4, 4)])
def test_four_streams_execute_at_once_and_more_take_their_turn(
    streams: int, kernels: int, rounds: int, make_machine: Callable[..., Machine]
) -> None:
    with make_machine(overlap="4").client() as client:
        took = client.call(clients.spread_over_streams, streams, kernels)

    assert rounds * 20 <= took < rounds * 20 + 19


def test_two_processes_with_overlapping_streams_still_share_by_slices(make_machine: Callable[..., Machine]) -> None:
    machine = make_machine(overlap="4")
    with machine.client("a") as one, machine.client("b") as other:
        for client in (one, other):
            client.call(clients.spread_over_streams, 1, 1)
        began = time.monotonic()
        for client in (one, other):
            client.start(clients.spread_over_streams, 4, 10)
        for client in (one, other):
            client.result()
        took = time.monotonic() - began
    busy = {one.owner.label: 0.0 for one in machine.record().intervals(0)}
    for interval in machine.record().intervals(0):
        busy[interval.owner.label] += interval.end - interval.start

    assert took >= 0.4
    assert busy["a"] == pytest.approx(busy["b"], rel=0.05) == pytest.approx(0.22, rel=0.05)
