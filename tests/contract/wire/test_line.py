"""The line codec: both ways, and every refusal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import BadLine
from contract.wire.line import LONGEST, Line, decode, encode

KEYS = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        pytest.param(b"welcome\n", Line("welcome"), id="a verb alone"),
        pytest.param(b"want gpus=GPU-1,GPU-2\n", Line("want", {"gpus": "GPU-1,GPU-2"}), id="a list"),
        pytest.param(
            b"error message=no%20such%20GPU\n", Line("error", {"message": "no such GPU"}), id="spaces are escaped"
        ),
        pytest.param(b"error message=\n", Line("error", {"message": ""}), id="an empty value"),
        pytest.param(
            b"error message=100%25%3D1\n", Line("error", {"message": "100%=1"}), id="the signs of the form itself"
        ),
    ],
)
def test_a_line_is_read_and_written_alike(raw: bytes, line: Line) -> None:
    assert decode(raw) == line
    assert encode(line) == raw


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        pytest.param(b"\n", "not a verb", id="an empty line"),
        pytest.param(b"Want gpus=a\n", "not a verb", id="capitals in the verb"),
        pytest.param(b"want  gpus=a\n", "not key=value", id="two spaces"),
        pytest.param(b"want gpus\n", "not key=value", id="a key without a value"),
        pytest.param(b"want gpus=a=b\n", "written as %XX", id="a bare = in a value"),
        pytest.param(b"want gpus=a gpus=b\n", "stands twice", id="a key twice"),
        pytest.param(b"want gpus=%zz\n", "written as %XX", id="a broken escape"),
        pytest.param(b"want gpus=a\tb\n", "must be printable", id="a control character"),
        pytest.param(b"want gpus=%ff\n", "not UTF-8", id="bytes that are not text"),
        pytest.param("want gpus=ä\n".encode(), "not ASCII", id="a letter that is not ASCII"),
        pytest.param(b"want gpus=" + b"a" * LONGEST, "longer than", id="more than 4096 bytes"),
    ],
)
def test_what_is_not_a_line_is_refused_with_its_reason(raw: bytes, says: str) -> None:
    with pytest.raises(BadLine, match=says):
        decode(raw)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(Line("two words"), id="a verb of two words"),
        pytest.param(Line("want", {"GPUs": "a"}), id="a key with capitals"),
        pytest.param(Line("want", {"gpus": "a" * LONGEST}), id="a line too long"),
    ],
)
def test_a_line_that_could_not_be_read_is_not_written(line: Line) -> None:
    with pytest.raises(BadLine):
        encode(line)


@given(st.dictionaries(KEYS, st.text(max_size=30), max_size=6))
def test_any_text_survives_the_wire(words: dict[str, str]) -> None:
    assert decode(encode(Line("want", words))) == Line("want", words)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_line_or_a_bad_line(raw: bytes) -> None:
    try:
        line = decode(raw)
    except BadLine:
        return
    assert decode(encode(line)) == line
