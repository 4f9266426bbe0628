"""The status' codec: what is written is read again, and a broken line says what is broken."""

import pytest

from contract.errors import BadLine
from contract.wire.line import Line, decode
from contract.wire.status import (
    ContainerStatus,
    DaemonStatus,
    Entry,
    GpuStatus,
    PlaceStatus,
    State,
    Status,
    decode_status,
    encode_entry,
)

DAEMON = DaemonStatus(
    epoch="0000000a",
    policy="fair",
    quantum_ms=500,
    side_by_side=True,
    containers=2,
    processes=3,
    jams=1,
    foreign=4,
    loop=(1, 2, 0, 0, 0),
    loop_us=77,
    refusals={"bad-line": 3, "again": 1},
    limits={"lines": 7},
)
GPU = GpuStatus(
    uuid="GPU-1",
    clients=2,
    holders=1,
    waiting=1,
    busy=0.25,
    busy_ms=1500,
    grants=9,
    switches=8,
    drained=True,
    paused="drained",
    quantum_ms=30_000,
    needed=1 << 30,
    memory_used=7,
    memory_total=16,
    temperature=-3,
    power=80.5,
    utilization=0.5,
)
CONTAINER = ContainerStatus(
    key="k.1",
    namespace="team",
    pod="train",
    container="main",
    mode="gang",
    gang=True,
    weight=100,
    priority=-5,
    processes=2,
    pids=(11, 12),
    memory=8 << 30,
)
PLACE = PlaceStatus(
    key="k.1",
    gpu="GPU-1",
    state=State.HOLDS,
    since_ms=5,
    held_us=2_500_000,
    busy_us=7,
    waited_us=9,
    waits=(1, 0, 0, 0, 0, 0, 0, 0),
    turns=1,
    yields=2,
    overdue=3,
    pageable=4,
    unpageable=5,
)
EVERY = Status(daemon=DAEMON, gpus=(GPU,), containers=(CONTAINER,), places=(PLACE,))
BARE = Status(
    daemon=DaemonStatus(),
    gpus=(GpuStatus(uuid="GPU-2"),),
    containers=(ContainerStatus(key="k"),),
    places=(PlaceStatus(key="k", gpu="GPU-2", state=State.RESTS),),
)


@pytest.mark.parametrize("status", [EVERY, BARE], ids=["everything is known", "nothing is known"])
def test_a_status_survives_the_wire(status: Status) -> None:
    assert status.daemon is not None
    entries: list[Entry] = [status.daemon, *status.gpus, *status.containers, *status.places]

    assert decode_status(decode(encode_entry(entry)) for entry in entries) == status


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        pytest.param(
            DAEMON,
            b"daemon epoch=0000000a policy=fair quantum_ms=500 side_by_side=1 containers=2 processes=3 jams=1 foreign=4"
            b" loop=1,2,0,0,0 loop_us=77 refusals=again:1,bad-line:3 limits=lines:7\n",
            id="the daemon",
        ),
        pytest.param(
            GPU,
            b"gpu uuid=GPU-1 clients=2 holders=1 waiting=1 busy=0.25 busy_ms=1500 grants=9 switches=8 drained=1"
            b" paused=drained quantum_ms=30000 needed=1073741824 memory_used=7 memory_total=16 temperature=-3"
            b" power=80.5 utilization=0.5\n",
            id="a GPU",
        ),
        pytest.param(
            CONTAINER,
            b"container key=k.1 namespace=team pod=train container=main mode=gang gang=1 weight=100 priority=-5"
            b" processes=2 pids=11,12 memory=8589934592\n",
            id="a container",
        ),
        pytest.param(
            PLACE,
            b"place key=k.1 gpu=GPU-1 state=holds since_ms=5 held_us=2500000 busy_us=7 waited_us=9"
            b" waits=1,0,0,0,0,0,0,0 turns=1 yields=2 overdue=3 pageable=4 unpageable=5\n",
            id="a container on a GPU",
        ),
    ],
)
def test_the_lines_are_those_that_older_readers_know(entry: Entry, line: bytes) -> None:
    assert encode_entry(entry) == line


def test_what_is_unknown_is_left_out() -> None:
    assert encode_entry(PlaceStatus(key="k", gpu="GPU-1", state=State.RESTS)).startswith(
        b"place key=k gpu=GPU-1 state=rests held_us=0"
    )


def test_keys_and_verbs_of_a_later_version_are_ignored() -> None:
    lines = [Line("daemon", {"colour": "green"}), Line("partition", {"uuid": "MIG-1"})]

    assert decode_status(lines) == Status(daemon=DaemonStatus())


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        pytest.param([], "one 'daemon' line, not 0", id="no daemon"),
        pytest.param([Line("daemon"), Line("daemon")], "one 'daemon' line, not 2", id="two daemons"),
        pytest.param([Line("gpu", {"clients": "1"})], "names no uuid", id="a GPU without its UUID"),
        pytest.param([Line("gpu", {"uuid": ""})], "uuid='' .* must be a name", id="an empty UUID"),
        pytest.param([Line("gpu", {"uuid": "G", "clients": "-1"})], "clients='-1'", id="fewer than no clients"),
        pytest.param([Line("gpu", {"uuid": "G", "grants": "1_0"})], "grants='1_0'", id="digits as Python writes them"),
        pytest.param([Line("gpu", {"uuid": "G", "power": "inf"})], "power='inf' .* a number", id="endless power"),
        pytest.param([Line("gpu", {"uuid": "G", "busy": "1.5"})], "busy='1.5'", id="busier than always"),
        pytest.param([Line("gpu", {"uuid": "G", "drained": "yes"})], "drained='yes' .* 0 or 1", id="no flag"),
        pytest.param([Line("daemon", {"refusals": "bad-line"})], "refusals='bad-line'", id="a code without its count"),
        pytest.param([Line("daemon", {"loop": "1,,2"})], "loop='1,,2'", id="a number missing"),
        pytest.param([Line("container", {"key": "k", "pids": "1,x"})], "pids='1,x'", id="a pid that is no number"),
        pytest.param(
            [Line("place", {"key": "k", "gpu": "G", "state": "sleeps"})],
            "state='sleeps' .* holds or yields or waits or rests",
            id="an unknown state",
        ),
    ],
)
def test_a_broken_status_says_what_is_broken(lines: list[Line], says: str) -> None:
    with pytest.raises(BadLine, match=says):
        decode_status(lines)
