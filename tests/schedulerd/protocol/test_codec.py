"""The codec: forms, and the short way being the same as the long one."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from contract.wire.line import Line, decode, encode
from schedulerd.core import messages
from schedulerd.errors import Refused
from schedulerd.protocol import codec

USUAL = st.builds(
    lambda epoch, counter, reason, busy: (
        f"done turn={epoch:08x}.{counter}"
        + (f" reason={reason}" if reason else "")
        + (f" busy_us={busy}" if busy is not None else "")
    ).encode(),
    st.integers(0, 2**32 - 1),
    st.integers(0, 10**20),
    st.sampled_from(["", "yield", "idle", "exit", "lunch"]),
    st.none() | st.integers(0, 10**19),
)


def the_long_way(raw: Any) -> Any:
    try:
        return codec.read(codec.split(raw))
    except Refused:
        return None


@given(USUAL | st.binary(max_size=60))
def test_a_line_read_at_sight_means_what_the_long_way_says(raw: Any) -> None:
    at_sight = codec.read_usual(raw)

    assert at_sight is None or at_sight == the_long_way(raw)


@pytest.mark.parametrize("raw", [b"want gpus=GPU-1,GPU-2", b"want gpus=GPU-1 colour=green"])
def test_a_want_is_known_at_sight_the_second_time(raw: Any) -> None:
    message = the_long_way(raw)
    codec.remember(raw, message)

    assert codec.read_usual(raw) == message == messages.Want(tuple(raw.split()[1].decode()[5:].split(",")))


def test_a_want_is_known_at_sight_after_a_flood_of_wants_that_are_each_said_once() -> None:
    flood = [f"want gpus=GPU-1 number={number}".encode() for number in range(10_000)]
    for raw in flood:
        codec.remember(raw, the_long_way(raw))
    honest = b"want gpus=GPU-2"
    codec.remember(honest, the_long_way(honest))

    assert codec.read_usual(honest) == messages.Want(("GPU-2",))
    assert sum(codec.read_usual(raw) is not None for raw in flood) <= 4096


@pytest.mark.parametrize(
    "text",
    [
        "want",
        "want gpus=",
        "want gpus=GPU-1,",
        "want gpus=GPU-1,GPU-1",
        "want gpus=" + ",".join(f"GPU-{i}" for i in range(64)),
        "done turn=1",
        "done turn=0000000A.1",
        "done turn=0000000a.1 reason=lunch",
        "using gpu=GPU-1 pageable=1",
        "using gpu=GPU-1 pageable=1.5 unpageable=0",
        "reserve gpu=GPU-1 bytes=lots",
        "hello v=1 gpus=GPU-1",
        "hello v=2 pid=1 gpus=GPU-1",
        "hello v=1 pid=1 gpus=GPU-1 weight=0",
        "hello v=1 pid=1 gpus=GPU-1 mode=sometimes",
        "hello v=1 pid=1 gpus=GPU-1 holding=0000000a.1",
        "dance",
        "WANT gpus=GPU-1",
        "want gpus=GPU-1\x00",
    ],
)
def test_a_line_out_of_form_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        codec.read(codec.split(text.encode()))


@pytest.mark.parametrize(
    "message",
    [
        messages.Grant("0000000a.1", ("GPU-1", "GPU-2"), 100, shared=True, waiting=True, keep_ms=5),
        messages.Wanted("0000000a.1", 5),
        messages.Yield("0000000a.1", 5000),
        messages.Revoked("0000000a.1", "overdue"),
        messages.Reserved("GPU-1", 1 << 40),
        messages.Complaint("bad-line", "a sentence with = and % and \n in it", "want"),
    ],
)
def test_what_the_daemon_says_is_in_the_contracts_form(message: Any) -> None:
    raw = codec.write(message)

    assert decode(raw) == decode(encode(decode(raw)))
    assert isinstance(decode(raw), Line)
