"""The load query's codec: an answer survives, and a broken one says what is broken."""

import pytest

from contract.errors import BadLine
from contract.wire.load import GpuLoad, Load, decode_load, encode_load

BUSY = GpuLoad(uuid="GPU-1", clients=3, waiting=2, busy=0.5, memory_used=7, memory_total=16, temperature=61, power=80.5)
DRAINED = GpuLoad(uuid="GPU-2", drained=True)


def test_an_answer_survives_the_wire() -> None:
    load = Load((BUSY, DRAINED), age_ms=40)

    assert decode_load(encode_load(load).splitlines(keepends=True)) == load


def test_an_unknown_figure_is_left_out() -> None:
    assert b"temperature" not in encode_load(Load((DRAINED,), age_ms=0))


def test_keys_of_a_later_version_are_ignored() -> None:
    assert decode_load([b"gpu uuid=GPU-1 colour=green\n", b"end age_ms=1\n"]).gpus == (GpuLoad(uuid="GPU-1"),)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        pytest.param([b"gpu uuid=GPU-1\n"], "broke off", id="no end line"),
        pytest.param([b"gpu clients=1\n", b"end age_ms=1\n"], "names no uuid", id="a GPU without its UUID"),
        pytest.param([b"gpu uuid=GPU-1 busy=1.5\n"], "busy='1.5'", id="busier than always"),
        pytest.param([b"gpu uuid=GPU-1 busy=nan\n"], "busy='nan'", id="busy as not a number"),
        pytest.param([b"gpu uuid=GPU-1 waiting=-1\n"], "waiting='-1'", id="fewer than none waiting"),
        pytest.param([b"gpu uuid=GPU-1 drained=yes\n"], "drained='yes'", id="a flag that is neither 0 nor 1"),
        pytest.param([b"end\n"], "names no age_ms", id="an end without its age"),
        pytest.param([b"grant turn=1\n"], "not 'grant'", id="another verb"),
    ],
)
def test_a_broken_answer_says_what_is_broken(lines: list[bytes], says: str) -> None:
    with pytest.raises(BadLine, match=says):
        decode_load(lines)
