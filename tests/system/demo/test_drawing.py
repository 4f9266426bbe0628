"""The demo's drawing, and the figures that the demo prints with it."""

import pytest

from testbed.demo.drawing import Bar, Brush, busy_share, draw_diff, draw_turns, overlap_seconds

PLAIN = Brush(coloured=False)
TURNS = (Bar("GPU 0", "a", 0.0, 1.0), Bar("GPU 0", "b", 1.0, 2.0), Bar("GPU 1", "a", 0.0, 2.0))


@pytest.mark.parametrize(
    ("bars", "seconds"),
    [
        pytest.param(TURNS, 0.0, id="turns that follow each other do not overlap"),
        pytest.param((Bar("0", "a", 0, 2), Bar("0", "b", 1, 3)), 1.0, id="two users at once overlap"),
        pytest.param((Bar("0", "a", 0, 2), Bar("0", "a", 1, 3)), 0.0, id="one user with itself does not"),
        pytest.param((Bar("0", "a", 0, 2), Bar("1", "b", 0, 2)), 0.0, id="two GPUs do not"),
        pytest.param(
            (Bar("0", "a", 0, 9), Bar("0", "b", 1, 2), Bar("0", "c", 3, 4)), 2.0, id="a long one under two others"
        ),
    ],
)
def test_overlap(bars: tuple[Bar, ...], seconds: float) -> None:
    assert overlap_seconds(bars) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("bars", "share"),
    [
        pytest.param(TURNS, 1.0, id="always in use"),
        pytest.param((Bar("0", "a", 0, 1), Bar("0", "b", 3, 4)), 0.5, id="idle in the middle"),
        pytest.param((Bar("0", "a", 0, 2), Bar("0", "b", 0, 2)), 1.0, id="two at once are not more than all"),
        pytest.param((), 0.0, id="nothing ran"),
    ],
)
def test_busy_share(bars: tuple[Bar, ...], share: float) -> None:
    assert busy_share(bars) == pytest.approx(share)


def test_each_gpu_has_a_line_that_says_which_container_had_it_when() -> None:
    first, second, *_ = draw_turns(TURNS, PLAIN, width=8)

    assert first.endswith("AAAABBBB")
    assert second.endswith("AAAAAAAA")


def test_a_diff_marks_what_was_added_and_leaves_out_what_is_far_away() -> None:
    before = "\n".join("abcdefgh")

    assert list(draw_diff(before, before + "\nnew", PLAIN, context=1)) == ["  ···", " h", "+new"]
