"""The control socket's requests: each survives its line, and a wrong value is an error that says what is allowed."""

import pytest

from contract.errors import BadLine, BadValue
from contract.wire.control import (
    AskHealth,
    AskLoad,
    AskReadiness,
    AskStatus,
    Beat,
    CardReport,
    Drain,
    Figures,
    Forget,
    Happened,
    Observe,
    Pause,
    PodFacts,
    PodReport,
    Request,
    Resume,
    SetPolicy,
    SetQuantum,
    ToObserver,
    Who,
    decode_request,
    decode_to_observer,
    encode_request,
    encode_to_observer,
    read_quantum,
)
from contract.wire.line import decode
from contract.wire.load import QUERY
from contract.words.grammar import AllocationKind, Mode

FIGURES = Figures(memory_total=16, memory_used=7, temperature=-3, power=80.123456789, utilization=0.5)
FACTS = PodFacts(
    uid="u",
    namespace="team",
    pod="train",
    container="main",
    mode=Mode.GANG,
    weight=400,
    priority=-5,
    quantum_ms=500,
    memory=8 << 30,
    allocation=AllocationKind.PLAIN,
)


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        pytest.param(AskStatus(), b"status\n", id="status"),
        pytest.param(AskLoad(), QUERY, id="the load query, as the device plugin puts it"),
        pytest.param(AskHealth(), b"healthz\n", id="liveness"),
        pytest.param(AskReadiness(), b"readyz\n", id="readiness"),
        pytest.param(SetQuantum(30_000), b"quantum time=30s\n", id="a turn in seconds"),
        pytest.param(SetQuantum(1_500, "GPU-1"), b"quantum time=1500ms gpu=GPU-1\n", id="a turn on one GPU"),
        pytest.param(SetQuantum(None), b"quantum time=auto\n", id="a turn that adapts"),
        pytest.param(SetPolicy("rr"), b"policy name=rr\n", id="a policy"),
        pytest.param(Drain("GPU-1"), b"drain gpu=GPU-1 now=0\n", id="drain"),
        pytest.param(Drain("GPU-1", now=True), b"drain gpu=GPU-1 now=1\n", id="drain now"),
        pytest.param(Pause(), b"pause\n", id="pause everything"),
        pytest.param(Resume("GPU-1"), b"resume gpu=GPU-1\n", id="resume one"),
        pytest.param(Observe(), b"observe\n", id="observe"),
        pytest.param(Beat(), b"beat\n", id="beat"),
        pytest.param(
            CardReport("GPU-1", FIGURES),
            b"figures gpu=GPU-1 memory_total=16 memory_used=7 temperature=-3 power=80.123456789 utilization=0.5\n",
            id="figures",
        ),
        pytest.param(CardReport("GPU-1", Figures()), b"figures gpu=GPU-1\n", id="a card that says nothing"),
        pytest.param(
            PodReport("k.1", FACTS),
            b"pod key=k.1 uid=u namespace=team pod=train container=main mode=gang weight=400 priority=-5 quantum_ms=500"
            b" memory=8589934592 allocation=plain\n",
            id="a pod",
        ),
        pytest.param(PodReport("k.1", PodFacts()), b"pod key=k.1\n", id="a pod that nothing is known of"),
    ],
)
def test_a_request_survives_its_line(request_: Request, line: bytes) -> None:
    assert encode_request(request_) == line
    assert decode_request(decode(line)) == request_


@pytest.mark.parametrize(
    ("said", "line"),
    [
        pytest.param(Who("k.1", ("GPU-1__0", "GPU-2__3")), b"who key=k.1 devices=GPU-1__0,GPU-2__3\n", id="who"),
        pytest.param(Who("k.1", ("GPU-1__0",), "u"), b"who key=k.1 devices=GPU-1__0 uid=u\n", id="who, of this pod"),
        pytest.param(Forget("k.1"), b"forget key=k.1\n", id="forget"),
        pytest.param(Happened("jam", "k.1", ("GPU-1",)), b"notice kind=jam key=k.1 gpus=GPU-1\n", id="a jam"),
    ],
)
def test_what_the_observer_is_told_survives_its_line(said: ToObserver, line: bytes) -> None:
    assert encode_to_observer(said) == line
    assert decode_to_observer(decode(line)) == said


def test_drain_is_not_at_once_unless_it_says_so() -> None:
    assert decode_request(decode(b"drain gpu=GPU-1")) == Drain("GPU-1")


WRONG = [
    pytest.param(b"dance", "no request dance; there are status, load,", id="an unknown verb"),
    pytest.param(b"quantum", "names no time", id="no time"),
    pytest.param(b"quantum time=soon", "time='soon' .* must be auto, or a duration", id="a time that is none"),
    pytest.param(b"quantum time=0ms", "time='0ms'", id="a turn of nothing"),
    pytest.param(b"quantum time=2h", "time='2h'", id="hours"),
    pytest.param(b"quantum time=99999s", "time='99999s'", id="a turn beyond an hour"),
    pytest.param(b"policy", "names no name", id="no policy"),
    pytest.param(b"policy name=", "name=''", id="an empty policy"),
    pytest.param(b"drain", "names no gpu", id="drain nothing"),
    pytest.param(b"drain gpu=", "gpu=''", id="drain the empty name"),
    pytest.param(b"drain gpu=G now=yes", "now='yes' .* must be 0 or 1", id="drain when?"),
    pytest.param(b"pause gpu=", "gpu='' .* must be a name", id="pause the empty name, which is not all"),
    pytest.param(b"figures", "names no gpu", id="figures of no card"),
    pytest.param(b"figures gpu=G memory_total=-1", "memory_total='-1'", id="less than no memory"),
    pytest.param(b"figures gpu=G memory_total=1e9", "memory_total='1e9'", id="memory as a fraction"),
    pytest.param(b"figures gpu=G memory_used=x", "memory_used='x'", id="memory in letters"),
    pytest.param(b"figures gpu=G temperature=61.5", "temperature='61.5'", id="half a degree"),
    pytest.param(b"figures gpu=G power=nan", "power='nan'", id="power that is no number"),
    pytest.param(b"figures gpu=G utilization=inf", "utilization='inf'", id="endless utilization"),
    pytest.param(b"pod", "names no key", id="a pod of no allocation"),
    pytest.param(b"pod key=k mode=chorus", "mode='chorus' .* single or gang or per-device", id="an unknown mode"),
    pytest.param(b"pod key=k weight=0", "weight='0' .* from 1 to 1000", id="no weight, by which time is divided"),
    pytest.param(b"pod key=k weight=1001", "weight='1001'", id="too much weight"),
    pytest.param(b"pod key=k priority=high", "priority='high'", id="a priority in letters"),
    pytest.param(b"pod key=k quantum_ms=0", "quantum_ms='0'", id="a pod's turn of nothing"),
    pytest.param(b"pod key=k quantum_ms=3600001", "quantum_ms='3600001'", id="a pod's turn beyond an hour"),
    pytest.param(b"pod key=k memory=0", "memory='0'", id="a cap of nothing"),
    pytest.param(b"pod key=k memory=9223372036854775808", "memory='9", id="a cap beyond any card"),
    pytest.param(b"pod key=k allocation=odd", "allocation='odd' .* managed or plain", id="an unknown allocation"),
]


@pytest.mark.parametrize(("line", "says"), WRONG)
def test_a_wrong_request_says_what_is_allowed(line: bytes, says: str) -> None:
    with pytest.raises(BadLine, match=says):
        decode_request(decode(line))


@pytest.mark.parametrize("line", [b"who key=k", b"who key=k devices=a,,b", b"forget", b"status"])
def test_a_wrong_line_to_the_observer_is_an_error(line: bytes) -> None:
    with pytest.raises(BadLine):
        decode_to_observer(decode(line))


def test_an_empty_name_is_not_written_as_if_it_meant_all() -> None:
    with pytest.raises(BadValue, match="a name is empty"):
        encode_request(Pause(""))


def test_a_turn_that_is_none_is_named() -> None:
    with pytest.raises(BadValue, match="'soon' is no turn: it must be auto, or a duration from 1ms to 3600s"):
        read_quantum("soon")
