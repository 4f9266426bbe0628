"""Count vGPUs as Kubernetes does: in a container, and in a pod at once."""

from fractions import Fraction

import pytest

from contract.sharing.vgpus import Kind, count_in_container, count_in_pod, read_amount
from contract.words.names import RESOURCE


def amount(value: object) -> dict[str, object]:
    return {RESOURCE: value}


@pytest.mark.parametrize(
    ("limits", "requests", "expected"),
    [
        pytest.param({}, {}, 0, id="neither limit nor request"),
        pytest.param({"cpu": "1"}, {"cpu": "1"}, 0, id="other resources only"),
        pytest.param(amount("1"), {}, 1, id="a limit is the request too"),
        pytest.param(amount("2"), {"cpu": "1"}, 2, id="a request for another resource changes nothing"),
        pytest.param(amount(3), amount("3"), 3, id="both are equal"),
        pytest.param(amount("0"), {}, 0, id="a limit of zero"),
        pytest.param(amount("0"), amount("0"), 0, id="zero for both"),
        pytest.param(amount("2"), amount("1"), None, id="the request is less than the limit"),
        pytest.param(amount("1"), amount("2"), None, id="the request is more than the limit"),
        pytest.param({}, amount("1"), None, id="a request without a limit"),
        pytest.param(amount("one"), {}, None, id="a limit that is no number"),
        pytest.param(amount("one"), amount("one"), None, id="two that are no numbers"),
        pytest.param(amount("1"), amount("one"), None, id="a request that is no number"),
        pytest.param(amount("-1"), {}, None, id="a negative limit"),
        pytest.param(amount("1500m"), {}, None, id="one and a half"),
        pytest.param(amount("2000m"), {}, 2, id="two, said in thousandths"),
    ],
)
def test_what_a_container_asks_for(
    limits: dict[str, object], requests: dict[str, object], expected: int | None
) -> None:
    assert count_in_container(limits, requests) == expected


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param([], 0, id="no container"),
        pytest.param([(Kind.APP, 2), (Kind.APP, 3)], 5, id="ordinary containers run together"),
        pytest.param([(Kind.INIT, 2), (Kind.INIT, 3)], 3, id="init containers run one after the other"),
        pytest.param([(Kind.INIT, 3), (Kind.INIT, 2)], 3, id="the largest init container may come first"),
        pytest.param([(Kind.INIT, 4), (Kind.APP, 3)], 4, id="an init container that is larger than the rest"),
        pytest.param([(Kind.INIT, 2), (Kind.APP, 3)], 3, id="an init container that is smaller than the rest"),
        pytest.param([(Kind.SIDECAR, 1), (Kind.APP, 2)], 3, id="a sidecar runs beside the ordinary ones"),
        pytest.param([(Kind.SIDECAR, 1), (Kind.SIDECAR, 2)], 3, id="two sidecars run together"),
        pytest.param([(Kind.SIDECAR, 2), (Kind.INIT, 3), (Kind.APP, 1)], 5, id="a sidecar runs beside later steps"),
        pytest.param([(Kind.INIT, 3), (Kind.SIDECAR, 2), (Kind.APP, 1)], 3, id="not beside earlier ones"),
        pytest.param([(Kind.APP, 1), (Kind.EPHEMERAL, 7)], 1, id="a debug container has none of its own"),
    ],
)
def test_what_a_pod_holds_at_once(containers: list[tuple[Kind, int]], expected: int) -> None:
    assert count_in_pod(containers) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1", Fraction(1)), (1, Fraction(1)), ("500m", Fraction(1, 2)), ("no", None), (None, None), ([], None)],
)
def test_an_amount_is_read_or_is_none(value: object, expected: Fraction | None) -> None:
    assert read_amount(value) == expected
