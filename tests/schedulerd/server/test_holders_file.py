"""What the next daemon knows of the one before, however that one ended."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schedulerd.core.model import UNKNOWN_HOLDER
from schedulerd.server.holders_file import Footprint

FREE = -float("inf")
Begin = Callable[..., Footprint]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    return lambda now=0.0: Footprint(tmp_path / "footprint", now=now, window=7.0)


def test_the_first_daemon_waits_for_nobody(begin: Begin) -> None:
    assert begin().left_behind("GPU-1") == (FREE, {})


def test_who_had_a_gpu_is_waited_for_and_who_gave_it_back_is_not(begin: Begin) -> None:
    first = begin()
    first.mark("GPU-1", "a", (7, 8))
    first.mark("GPU-2", "b", (7,))
    first.mark("GPU-2", "b", ())
    second = begin(100.0)

    assert second.left_behind("GPU-1") == (107.0, {"a": (7, 8)})
    assert second.left_behind("GPU-2") == (FREE, {})


def test_a_daemon_that_lived_too_short_passes_on_what_it_found(begin: Begin) -> None:
    begin().mark("GPU-1", "a", (7,))
    begin(1.0)

    assert begin(2.0).left_behind("GPU-1") == (9.0, {"a": (7,)})


def test_who_was_accounted_for_is_not_passed_on(begin: Begin) -> None:
    begin().mark("GPU-1", "a", (7,))
    second = begin(1.0)
    second.mark("GPU-1", "a", ())
    second.mark("GPU-1", "b", (7,))

    assert begin(2.0).left_behind("GPU-1") == (9.0, {"b": (7,)})


def test_more_than_fit_are_somebody(begin: Begin) -> None:
    first = begin()
    for number in range(20):
        first.mark("GPU-1", f"c{number}", (7,))
    _, holders = begin().left_behind("GPU-1")

    assert UNKNOWN_HOLDER in holders
    assert len(holders) == 13


def test_a_file_of_another_boot_or_of_nonsense_says_nothing(begin: Begin, tmp_path: Path) -> None:
    begin().mark("GPU-1", "a", (7,))
    path = tmp_path / "footprint"
    raw = bytearray(path.read_bytes())
    raw[10] ^= 1
    path.write_bytes(raw)

    assert begin().left_behind("GPU-1") == (FREE, {})


def test_of_a_large_container_the_rest_is_counted(begin: Begin) -> None:
    begin().mark("GPU-1", "a", tuple(range(1, 21)))
    _, holders = begin().left_behind("GPU-1")

    assert holders == {"a": (*range(1, 16), 0, 0, 0, 0, 0)}


def test_a_name_that_does_not_fit_is_somebodys(begin: Begin) -> None:
    begin().mark("GPU-1", "long" * 40, (7,))
    _, holders = begin().left_behind("GPU-1")

    assert holders == {UNKNOWN_HOLDER: (7,)}


def test_in_a_file_of_another_version_anybody_may_be_anywhere(begin: Begin, tmp_path: Path) -> None:
    begin().mark("GPU-1", "a", (7,))
    path = tmp_path / "footprint"
    path.write_bytes(b"NVSFOOT3" + path.read_bytes()[8:64])

    assert begin(1.0).left_behind("GPU-5") == (8.0, {UNKNOWN_HOLDER: (0,)})
    assert begin(2.0).left_behind("GPU-5") == (9.0, {UNKNOWN_HOLDER: (0,)})


def test_what_stood_in_a_file_of_another_boot_does_not_come_up_later(begin: Begin, tmp_path: Path) -> None:
    first = begin()
    for number in (1, 2, 3):
        first.mark(f"GPU-{number}", "a", (7,))
    path = tmp_path / "footprint"
    raw = bytearray(path.read_bytes())
    raw[10] ^= 1
    path.write_bytes(raw)
    begin().mark("GPU-9", "b", (7,))

    assert begin().left_behind("GPU-3") == (FREE, {})
