"""What the next daemon knows of the one before, however that one ended."""

import pytest

from schedulerd.footprint import SOMEBODY, Footprint

FREE = -float("inf")


@pytest.fixture
def begin(tmp_path):
    return lambda now=0.0: Footprint(tmp_path / "footprint", now=now, window=7.0)


def test_the_first_daemon_waits_for_nobody(begin):
    assert begin().left_behind("GPU-1") == (FREE, {})


def test_who_had_a_gpu_is_waited_for_and_who_gave_it_back_is_not(begin):
    first = begin()
    first.mark("GPU-1", "a", 2)
    first.mark("GPU-2", "b", 1)
    first.mark("GPU-2", "b", 0)
    second = begin(100.0)

    assert second.left_behind("GPU-1") == (107.0, {"a": 2})
    assert second.left_behind("GPU-2") == (FREE, {})


def test_a_daemon_that_lived_too_short_passes_on_what_it_found(begin):
    begin().mark("GPU-1", "a", 1)
    begin(1.0)

    assert begin(2.0).left_behind("GPU-1") == (9.0, {"a": 1})


def test_who_was_accounted_for_is_not_passed_on(begin):
    begin().mark("GPU-1", "a", 1)
    second = begin(1.0)
    second.mark("GPU-1", "a", 0)
    second.mark("GPU-1", "b", 1)

    assert begin(2.0).left_behind("GPU-1") == (9.0, {"b": 1})


def test_more_than_fit_are_somebody(begin):
    first = begin()
    for number in range(20):
        first.mark("GPU-1", f"c{number}", 1)
    _, holders = begin().left_behind("GPU-1")

    assert SOMEBODY in holders
    assert len(holders) == 13


def test_a_file_of_another_boot_or_of_nonsense_says_nothing(begin, tmp_path):
    begin().mark("GPU-1", "a", 1)
    path = tmp_path / "footprint"
    raw = bytearray(path.read_bytes())
    raw[10] ^= 1
    path.write_bytes(raw)

    assert begin().left_behind("GPU-1") == (FREE, {})
