"""The device-id codec: what it reads, what it refuses and with which words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import BadDeviceId
from contract.words.device_id import LONGEST, Slot, decode, encode

UUID = "GPU-1b2c3d4e-0000-1111-2222-333344445555"


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        pytest.param(f"{UUID}__0", Slot(UUID, 0), id="the first slot of a GPU"),
        pytest.param(f"{UUID}__99", Slot(UUID, 99), id="the hundredth slot"),
        pytest.param("MIG-abc__3", Slot("MIG-abc", 3), id="a MIG instance"),
    ],
)
def test_an_id_is_read_and_written_alike(text: str, slot: Slot) -> None:
    assert decode(text) == slot
    assert encode(slot) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(UUID, "is not a device id", id="a bare UUID is NVIDIA's id, not ours"),
        pytest.param(f"{UUID}::0", "is not a device id", id="NVIDIA's replica id is not ours"),
        pytest.param(f"{UUID}__", "is not an ordinal", id="no ordinal"),
        pytest.param(f"{UUID}__01", "without zeros in front", id="a zero in front"),
        pytest.param(f"{UUID}__-1", "is not an ordinal", id="a negative ordinal"),
        pytest.param(f"{UUID}__1\n", "is not an ordinal", id="a newline at the end"),
        pytest.param(f"{UUID}__٣", "is not an ordinal", id="a digit of another script"),
        pytest.param("__0", "is not a GPU's UUID", id="no UUID"),
        pytest.param("0__0", "is not a GPU's UUID", id="an index for a UUID"),
        pytest.param("GPU-a__b__0", "is not a GPU's UUID", id="the separator twice"),
        pytest.param("GPU-" + "a" * 60 + "__0", f"more than {LONGEST}", id="64 characters and more"),
    ],
)
def test_what_is_not_an_id_is_refused_with_its_reason(text: str, says: str) -> None:
    with pytest.raises(BadDeviceId, match=says):
        decode(text)


@given(st.text(max_size=80))
def test_any_text_is_read_back_or_refused(text: str) -> None:
    try:
        slot = decode(text)
    except BadDeviceId:
        return
    assert encode(slot) == text
