"""What the observer reads of the cards while one of them does not answer; NVML's functions are the test's."""

import threading
from typing import Any

import pynvml
import pytest

from schedulerd.observer.cards import Cards

LOST = pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)


class Library:
    """Eight cards; those that are lost do not even give a handle."""

    def __init__(self) -> None:
        self.lost, self.opened, self.users, self.at_once = {5}, 0, 0, 0
        self.count_fails = False

    def init(self) -> None:
        self.opened += 1

    def count(self) -> Any:
        if self.count_fails:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        return 8

    def by_index(self, place: int) -> Any:
        self.users += 1
        self.at_once = max(self.at_once, self.users)
        threading.Event().wait(0.001)
        self.users -= 1
        if place in self.lost:
            raise LOST
        return place


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    one = Library()
    monkeypatch.setattr(pynvml, "nvmlInit", one.init)
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", one.count)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", one.by_index)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda handle: f"GPU-{handle}")
    return one


WELL = {f"GPU-{place}" for place in range(8)}


def test_a_lost_card_leaves_the_others_in_sight_and_the_library_open(library: Any) -> None:
    cards = Cards()
    seen = [set(cards.read()), set(cards.processes()), set(cards.read())]

    assert seen == [WELL - {"GPU-5"}] * 3
    assert library.opened == 1


def test_a_card_that_is_back_is_seen_within_a_minute(library: Any) -> None:
    now = 0.0
    cards = Cards(clock=lambda: now)
    cards.read()
    library.lost.clear()
    now = 60.0

    assert set(cards.read()) == WELL
    now = 600.0
    cards.read()
    assert library.opened == 2


def test_a_library_that_does_not_answer_is_opened_anew_at_the_next_look(library: Any) -> None:
    cards = Cards()
    cards.read()
    library.count_fails = True
    assert cards.read() == {}
    library.count_fails = False

    assert set(cards.read()) == WELL - {"GPU-5"}
    assert library.opened == 2


def test_two_threads_look_one_after_the_other(library: Any) -> None:
    cards = Cards()
    others = [threading.Thread(target=cards.read) for _ in range(4)]
    for one in others:
        one.start()
    for one in others:
        one.join()

    assert library.at_once == 1
