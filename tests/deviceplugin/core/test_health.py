"""GPU health: how troubles come, add up and pass."""

import pytest

from deviceplugin.core.health import WELL, GpuHealth, answer, lose, raise_xid, unhealthy
from deviceplugin.core.xids import XIDS, Meaning, meaning_of

QUIET = 30.0


def xid(health: GpuHealth, number: int, now: float) -> GpuHealth:
    return raise_xid(health, number, now=now, quiet_seconds=QUIET)


def well_at(health: GpuHealth, now: float) -> bool:
    return answer(health, now=now, quiet_seconds=QUIET).trouble is None


@pytest.mark.parametrize("number", [number for number, (meaning, _) in XIDS.items() if meaning is not Meaning.CRITICAL])
def test_an_error_of_one_application_leaves_the_gpu_healthy(number: int) -> None:
    assert xid(WELL, number, 0.0) == WELL


@pytest.mark.parametrize("number", [48, 79, 95, 119, 999, 0])
def test_a_critical_or_unknown_xid_makes_the_gpu_unhealthy_and_names_itself(number: int) -> None:
    assert unhealthy({"a": xid(WELL, number, 0.0), "b": WELL}) == {"a": f"XID {number}: {meaning_of(number)[1]}"}


@pytest.mark.parametrize(
    ("health", "now", "expected"),
    [
        pytest.param(xid(WELL, 48, 0.0), 29.0, False, id="not before its quiet time is over"),
        pytest.param(xid(WELL, 48, 0.0), 30.0, True, id="well after it"),
        pytest.param(xid(xid(WELL, 48, 0.0), 48, 10.0), 69.0, False, id="a second XID doubles it"),
        pytest.param(xid(xid(WELL, 48, 0.0), 48, 10.0), 70.0, True, id="and it passes too"),
        pytest.param(lose(WELL, now=0.0, quiet_seconds=QUIET), 29.0, False, id="a lost GPU must answer for a while"),
        pytest.param(lose(WELL, now=0.0, quiet_seconds=QUIET), 31.0, True, id="then it is back"),
        pytest.param(lose(xid(WELL, 79, 0.0), now=50.0, quiet_seconds=QUIET), 79.0, False, id="lost anew: anew"),
    ],
)
def test_a_gpu_recovers_after_its_quiet_time(health: GpuHealth, now: float, expected: bool) -> None:
    assert well_at(health, now) is expected


def test_xids_long_ago_are_forgotten() -> None:
    recovered = answer(xid(WELL, 48, 0.0), now=31.0, quiet_seconds=QUIET)

    assert recovered.xids == 1
    assert answer(recovered, now=200.0, quiet_seconds=QUIET) == WELL


def test_after_a_flood_of_xids_a_gpu_still_recovers() -> None:
    health = WELL
    for _ in range(1000):
        health = xid(health, 48, 0.0)

    assert well_at(health, QUIET * 2**7)
