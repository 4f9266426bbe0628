"""Graphs and stream capture: what a capture records, and that calls invalidate it exactly where CUDA says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.gpu_machine import Machine

cu: Any = pytest.importorskip("cuda.bindings.driver")
from tests.simgpu.clients import GLOBAL, RELAXED, THREAD_LOCAL, begin, kernel, launch, name, take  # noqa: E402


def capture_kernels(stream: Any, count: int, kernel_name: str = "step_5ms") -> Any:
    take(cu.cuStreamBeginCapture(stream, GLOBAL))
    for _ in range(count):
        take(launch(kernel(kernel_name), stream))
    return take(cu.cuStreamEndCapture(stream))


def seconds_of(graph: Any, stream: Any) -> float:
    run, start, end = take(cu.cuGraphInstantiate(graph, 0)), take(cu.cuEventCreate(0)), take(cu.cuEventCreate(0))
    take(cu.cuEventRecord(start, stream))
    take(cu.cuGraphLaunch(run, stream))
    take(cu.cuEventRecord(end, stream))
    take(cu.cuStreamSynchronize(stream))
    return float(take(cu.cuEventElapsedTime(start, end))) / 1e3


def a_capture_runs_nothing_and_its_graph_all() -> None:
    begin()
    stream = take(cu.cuStreamCreate(1))
    began = time.monotonic()
    graph = capture_kernels(stream, 4, "step_50ms")
    take(cu.cuStreamSynchronize(stream))
    assert time.monotonic() - began < 0.15
    assert 0.2 <= seconds_of(graph, stream) < 0.3


def forks_and_joins_are_edges() -> None:
    begin()
    step, one, other = kernel("step_1ms"), take(cu.cuStreamCreate(1)), take(cu.cuStreamCreate(1))
    fork, join = take(cu.cuEventCreate(0)), take(cu.cuEventCreate(0))
    take(cu.cuStreamBeginCapture(one, GLOBAL))
    take(launch(step, one))
    take(cu.cuEventRecord(fork, one))
    take(cu.cuStreamWaitEvent(other, fork, 0))
    take(launch(step, other))
    take(launch(step, one))
    take(cu.cuEventRecord(join, other))
    take(cu.cuStreamWaitEvent(one, join, 0))
    take(launch(step, one))
    graph = take(cu.cuStreamEndCapture(one))
    assert take(cu.cuGraphGetNodes(graph, 0))[1] == 4
    assert take(cu.cuGraphGetEdges(graph, 0))[-1] == 4
    assert take(cu.cuGraphGetRootNodes(graph, 0))[1] == 1
    assert name(cu.cuEventQuery(fork)) == "CAPTURED_EVENT"


def graphs_are_built_by_hand() -> None:
    begin()
    graph, stream = take(cu.cuGraphCreate(0)), take(cu.cuStreamCreate(1))
    memory = take(cu.cuMemAlloc(4096))
    params = cu.CUDA_KERNEL_NODE_PARAMS()
    params.func = kernel("step_10ms")
    params.gridDimX = params.gridDimY = params.gridDimZ = params.blockDimX = params.blockDimY = params.blockDimZ = 1
    work = take(cu.cuGraphAddKernelNode(graph, [], 0, params))
    filling = cu.CUDA_MEMSET_NODE_PARAMS()
    filling.dst, filling.value, filling.elementSize, filling.width, filling.height = memory, 9, 1, 16, 1
    fill = take(cu.cuGraphAddMemsetNode(graph, [work], 1, filling, take(cu.cuCtxGetCurrent())))
    child = take(cu.cuGraphAddChildGraphNode(graph, [fill], 1, capture_kernels(stream, 2)))
    assert take(cu.cuGraphNodeGetType(child)) == cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_GRAPH
    run = take(cu.cuGraphInstantiate(graph, 0))
    take(cu.cuGraphNodeSetEnabled(run, work, 0))
    take(cu.cuGraphLaunch(run, stream))
    take(cu.cuStreamSynchronize(stream))
    back = bytearray(16)
    take(cu.cuMemcpyDtoH(back, memory, 16))
    assert bytes(back) == b"\x09" * 16
    assert 0.02 <= seconds_of(graph, stream) < 0.06
    take(cu.cuGraphAddDependencies(graph, [child], [work], [cu.CUgraphEdgeData()], 1))
    assert name(cu.cuGraphInstantiate(graph, 0)) == "INVALID_VALUE", "a cycle"


def memory_nodes_take_memory_when_they_run() -> None:
    begin()
    stream, free = take(cu.cuStreamCreate(1)), take(cu.cuMemGetInfo())[0]
    take(cu.cuStreamBeginCapture(stream, RELAXED))
    pointer = take(cu.cuMemAllocAsync(1 << 30, stream))
    take(launch(kernel("step_1ms"), stream))
    run = take(cu.cuGraphInstantiate(take(cu.cuStreamEndCapture(stream)), 0))
    assert take(cu.cuMemGetInfo())[0] == free
    take(cu.cuGraphLaunch(run, stream))
    take(cu.cuStreamSynchronize(stream))
    assert free - take(cu.cuMemGetInfo())[0] == 1 << 30
    take(cu.cuMemFreeAsync(pointer, stream))
    take(cu.cuStreamSynchronize(stream))
    assert take(cu.cuMemGetInfo())[0] == free


Call = Callable[[Any], tuple[Any, ...]]
FORBIDDEN: dict[str, tuple[Call, str]] = {
    "waiting for the stream": (lambda stream: cu.cuStreamSynchronize(stream), "STREAM_CAPTURE_UNSUPPORTED"),
    "asking the stream": (lambda stream: cu.cuStreamQuery(stream), "STREAM_CAPTURE_UNSUPPORTED"),
    "waiting for the context": (lambda _: cu.cuCtxSynchronize(), "STREAM_CAPTURE_UNSUPPORTED"),
    "allocating in global mode": (lambda _: cu.cuMemAlloc(512), "STREAM_CAPTURE_UNSUPPORTED"),
    "uploading a graph to the stream": (
        lambda stream: cu.cuGraphUpload(UPLOADED[0], stream),
        "STREAM_CAPTURE_UNSUPPORTED",
    ),
    "an event of another stream": (lambda stream: _wait_for_uncaptured(stream), "STREAM_CAPTURE_ISOLATION"),
    "asking an event of the capture": (lambda stream: _ask_captured(stream), "CAPTURED_EVENT"),
}
UPLOADED: list[Any] = []


def _wait_for_uncaptured(stream: Any) -> Any:
    return cu.cuStreamWaitEvent(stream, EVENTS[0], 0)


def _ask_captured(stream: Any) -> Any:
    take(cu.cuEventRecord(EVENTS[1], stream))
    return cu.cuEventQuery(EVENTS[1])


EVENTS: list[Any] = []


def breaks_a_capture(what: str) -> tuple[str, str]:
    """Return what the forbidden call answers, and what ending the capture answers after it."""
    begin()
    stream, other = take(cu.cuStreamCreate(1)), take(cu.cuStreamCreate(1))
    EVENTS[:] = [take(cu.cuEventCreate(0)), take(cu.cuEventCreate(0))]
    UPLOADED[:] = [take(cu.cuGraphInstantiate(capture_kernels(other, 1), 0))]
    take(cu.cuEventRecord(EVENTS[0], other))
    take(cu.cuStreamBeginCapture(stream, GLOBAL))
    take(launch(kernel("step_1ms"), stream))
    answer = name(FORBIDDEN[what][0](stream))
    return answer, name(cu.cuStreamEndCapture(stream))


@pytest.mark.parametrize("what", FORBIDDEN)
def test_a_capture_is_invalidated_by(what: str, machine: Machine) -> None:
    with machine.client() as client:
        assert client.call(breaks_a_capture, what) == (FORBIDDEN[what][1], "STREAM_CAPTURE_INVALIDATED")


def legacy_stream_during(flags: int) -> tuple[str, str]:
    begin()
    stream = take(cu.cuStreamCreate(flags))
    take(cu.cuStreamBeginCapture(stream, RELAXED))
    answer = name(launch(kernel("step_1ms"), 0))
    return answer, name(cu.cuStreamEndCapture(stream))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param(
            0, ("STREAM_CAPTURE_IMPLICIT", "STREAM_CAPTURE_INVALIDATED"), id="breaks a blocking stream's capture"
        ),
        pytest.param(1, ("SUCCESS", "SUCCESS"), id="does not touch a non-blocking stream's capture"),
    ],
)
def test_the_legacy_stream(flags: int, expected: tuple[str, str], machine: Machine) -> None:
    with machine.client() as client:
        assert client.call(legacy_stream_during, flags) == expected


def other_thread_allocates(capture_mode: int, thread_mode: int) -> tuple[str, str]:
    """Allocate in another thread during a capture; return that call's answer and the capture's."""
    context = begin()
    modes = (GLOBAL, THREAD_LOCAL, RELAXED)
    stream, answers = take(cu.cuStreamCreate(1)), []

    def allocate() -> None:
        take(cu.cuCtxSetCurrent(context))
        take(cu.cuThreadExchangeStreamCaptureMode(modes[thread_mode]))
        answers.append(name(cu.cuMemAlloc(512)))

    take(cu.cuStreamBeginCapture(stream, modes[capture_mode]))
    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
    return answers[0], name(cu.cuStreamEndCapture(stream))


REFUSED, FINE = ("STREAM_CAPTURE_UNSUPPORTED", "STREAM_CAPTURE_INVALIDATED"), ("SUCCESS", "SUCCESS")


@pytest.mark.parametrize(
    ("capture_mode", "thread_mode", "expected"),
    [
        pytest.param(0, 0, REFUSED, id="global capture, thread in global mode: breaks it"),
        pytest.param(0, 1, FINE, id="global capture, thread in thread-local mode: fine"),
        pytest.param(0, 2, FINE, id="global capture, thread in relaxed mode: fine"),
        pytest.param(1, 0, FINE, id="thread-local capture: other threads are free"),
        pytest.param(2, 0, FINE, id="relaxed capture: all are free"),
    ],
)
def test_another_thread_s_unsafe_call(
    capture_mode: int, thread_mode: int, expected: tuple[str, str], machine: Machine
) -> None:
    with machine.client() as client:
        assert client.call(other_thread_allocates, capture_mode, thread_mode) == expected


def endings() -> None:
    begin()
    one, other, mark = take(cu.cuStreamCreate(1)), take(cu.cuStreamCreate(1)), take(cu.cuEventCreate(0))
    assert name(cu.cuStreamEndCapture(one)) == "ILLEGAL_STATE"
    assert name(cu.cuStreamBeginCapture(0, GLOBAL)) == "STREAM_CAPTURE_UNSUPPORTED"
    take(cu.cuStreamBeginCapture(one, GLOBAL))
    assert name(cu.cuStreamBeginCapture(one, GLOBAL)) == "ILLEGAL_STATE"
    take(cu.cuEventRecord(mark, one))
    take(cu.cuStreamWaitEvent(other, mark, 0))
    assert take(cu.cuStreamIsCapturing(other)) == cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE
    take(launch(kernel("step_1ms"), other))
    assert name(cu.cuStreamEndCapture(one)) == "STREAM_CAPTURE_UNJOINED"
    assert take(cu.cuStreamIsCapturing(other)) == cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
    take(cu.cuStreamBeginCapture(one, GLOBAL))
    take(cu.cuEventRecord(mark, one))
    take(cu.cuStreamWaitEvent(other, mark, 0))
    assert name(cu.cuStreamEndCapture(other)) == "STREAM_CAPTURE_UNMATCHED"
    assert name(cu.cuStreamEndCapture(one)) == "STREAM_CAPTURE_INVALIDATED"
    answers: list[str] = []
    take(cu.cuStreamBeginCapture(one, GLOBAL))
    thread = threading.Thread(target=lambda: answers.append(name(cu.cuStreamEndCapture(one))))
    thread.start()
    thread.join()
    assert answers == ["STREAM_CAPTURE_WRONG_THREAD"]
    take(cu.cuStreamEndCapture(one))


@pytest.mark.parametrize(
    "behaviour",
    [
        a_capture_runs_nothing_and_its_graph_all, forks_and_joins_are_edges, graphs_are_built_by_hand,
        memory_nodes_take_memory_when_they_run, endings,
    ],
    ids=lambda function: function.__name__.replace("_", " "),
)  # fmt: skip
def test_graphs(behaviour: Callable[[], None], machine: Machine) -> None:
    with machine.client() as client:
        client.call(behaviour)
