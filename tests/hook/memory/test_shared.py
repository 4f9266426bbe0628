"""Memory that other processes or network cards are to reach: where the driver refuses, the annotation is named once."""

import pytest

from contract.words import names
from tests.fakes.wire.daemon import Peer
from tests.hook.support.machine import Machine, compiled
from tests.hook.support.serving import serving

REMEDY = f"{names.ALLOCATION}: plain"


def said_after(machine: Machine, peer: Peer, allocation: str, *words: str) -> tuple[list[int], str]:
    with serving(peer, allocation=allocation):
        out, said = machine.start(compiled("asking"), *words).communicate(timeout=20)
    return [int(word) for word in out.split()], said


@pytest.mark.parametrize("asked", ["ipc", "ipc-within"])
def test_a_refused_ipc_handle_names_the_annotation_once(machine: Machine, peer: Peer, asked: str) -> None:
    answers, said = said_after(machine, peer, "managed", "plain=64", asked, asked)

    assert answers == [0, 1, 1], "CUDA_ERROR_INVALID_VALUE is the driver's own answer"
    assert said.count("nvshare: ") == 1
    assert "cuIpcGetMemHandle was refused" in said
    assert REMEDY in said


def test_a_refused_range_for_rdma_names_the_annotation(machine: Machine, peer: Peer) -> None:
    answers, said = said_after(machine, peer, "managed", "plain=64", "range")

    assert answers[1]
    assert "cuMemGetHandleForAddressRange was refused" in said
    assert REMEDY in said


@pytest.mark.parametrize(
    ("allocation", "held"),
    [
        pytest.param("plain", "plain=64", id="the container's memory is ordinary"),
        pytest.param("managed", "own=64", id="the program itself asked for managed memory"),
        pytest.param("managed", "stream=64", id="memory of a pool is never managed"),
    ],
)
def test_where_the_annotation_would_not_help_nothing_is_said(
    machine: Machine, peer: Peer, allocation: str, held: str
) -> None:
    _, said = said_after(machine, peer, allocation, held, "ipc", "range")

    assert said == ""
