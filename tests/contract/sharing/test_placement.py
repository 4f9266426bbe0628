"""Which slots a container gets: tables of choices, and rules that hold for all of them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.sharing.inventory import Inventory
from contract.sharing.placement import Policy, Request, Strategy, prefer
from contract.sharing.scoring import Weights, penalties
from contract.wire.load import GpuLoad
from contract.words.device_id import decode
from deviceplugin.core.inventory import Rules, take_stock
from tests.fakes.gpus import make_gpu, make_inventory

A, B, C, D = (make_gpu(number).uuid for number in range(4))
SPREAD, PACK = Policy(), Policy(strategy=Strategy.PACK)


def ids(uuid: str, *ordinals: int) -> tuple[str, ...]:
    return tuple(f"{uuid}__{ordinal}" for ordinal in ordinals)


def gpus_of(device_ids: tuple[str, ...], inventory: Inventory) -> tuple[str, ...]:
    """Return the UUIDs behind the ids; an id that the inventory does not know is a GPU of its own."""
    known = inventory.slot_of
    return tuple(known[one].uuid if one in known else one for one in device_ids)


TEN = range(10)
CASES = [
    pytest.param(SPREAD, ids(A, *TEN) + ids(B, *TEN), (), 1, ids(A, 0), id="equal GPUs: the lower UUID, lowest slot"),
    pytest.param(SPREAD, ids(A, 5, 7) + ids(B, *TEN), (), 1, ids(B, 0), id="spread takes the emptier GPU"),
    pytest.param(PACK, ids(A, *TEN) + ids(B, 5, 7), (), 1, ids(B, 5), id="pack takes the fuller GPU"),
    pytest.param(SPREAD, ids(A, *TEN) + ids(B, 9), (), 2, ids(A, 0) + ids(B, 9), id="two slots: two GPUs"),
    pytest.param(PACK, ids(A, 1, 2) + ids(B, *TEN), (), 2, ids(A, 1) + ids(B, 0), id="pack too keeps GPUs distinct"),
    pytest.param(SPREAD, ids(A, 1, 2, 3), (), 2, ids(A, 1, 2), id="one GPU only: the asked size all the same"),
    pytest.param(SPREAD, ids(A, 1), (), 3, ids(A, 1), id="fewer than asked: what there is"),
    pytest.param(
        SPREAD,
        ids(A, *TEN) + ids(B, *TEN),
        ids(A, 4),
        2,
        ids(A, 4) + ids(B, 0),
        id="must comes first, another GPU next",
    ),
    pytest.param(SPREAD, ids(B, *TEN), ids(A, 4), 2, ids(A, 4) + ids(B, 0), id="must need not be among the available"),
    pytest.param(SPREAD, ids(A, 1, 2), ids(A, 1, 2), 1, ids(A, 1), id="more musts than asked: the asked size"),
    pytest.param(SPREAD, ids(A, 1, 1, 1), (), 2, ids(A, 1), id="an id said twice is one slot"),
    pytest.param(SPREAD, ("what", *ids(A, 1)), (), 2, (*ids(A, 1), "what"), id="an id not ours is taken last"),
    pytest.param(SPREAD, (), (), 1, (), id="nothing available: nothing"),
    pytest.param(SPREAD, ids(A, 1), (), 0, (), id="size 0: nothing"),
    pytest.param(SPREAD, ids(A, 1), (), -1, (), id="size -1: nothing"),
]


@pytest.mark.parametrize(("policy", "available", "must", "size", "expected"), CASES)
def test_choice(
    policy: Policy, available: tuple[str, ...], must: tuple[str, ...], size: int, expected: tuple[str, ...]
) -> None:
    request = Request(available=available, must=must, size=size)

    assert prefer(request, make_inventory(4), policy) == expected


def test_a_gpu_with_fewer_slots_is_as_full_as_its_share_says() -> None:
    inventory = take_stock([make_gpu(0), make_gpu(1)], Rules(slots=10, slots_for={B: 2}))
    request = Request(available=ids(A, 0, 1, 2, 3, 4) + ids(B, 0, 1), size=1)

    assert prefer(request, inventory, SPREAD) == ids(B, 0)


@pytest.mark.parametrize(
    ("free_on_b", "expected"),
    [
        pytest.param(range(8), C, id="equally free: the GPU near the first one, though its UUID is higher"),
        pytest.param(range(9), B, id="closeness never outweighs how free a GPU is"),
    ],
)
def test_numa_closeness_breaks_ties(free_on_b: range, expected: str) -> None:
    gpus = [make_gpu(0, numa=0), make_gpu(1, numa=1), make_gpu(2, numa=0)]
    inventory = take_stock(gpus, Rules(slots=10))
    request = Request(available=ids(B, *free_on_b) + ids(C, *range(8)), must=ids(A, 0), size=2)

    assert gpus_of(prefer(request, inventory, SPREAD), inventory) == (A, expected)


def load_of(uuid: str, **figures: float) -> GpuLoad:
    return GpuLoad(uuid=uuid, **figures)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        pytest.param([load_of(A, busy=0.9), load_of(B, busy=0.1)], B, id="the idle GPU"),
        pytest.param([load_of(A, waiting=3), load_of(B)], B, id="the GPU that nobody waits for"),
        pytest.param(
            [load_of(A, memory_used=9, memory_total=10), load_of(B, memory_used=1, memory_total=10)],
            B,
            id="free memory",
        ),
        pytest.param([load_of(A, temperature=90), load_of(B, temperature=40)], B, id="the cool GPU"),
        pytest.param([load_of(A, power=400.0), load_of(B, power=60.0)], B, id="the GPU that draws less"),
        pytest.param([load_of(A, temperature=90), load_of(B)], A, id="a figure known of one GPU only is left out"),
        pytest.param([], A, id="no load at all: by count"),
    ],
)
def test_load_decides_among_equally_free_gpus(loads: list[GpuLoad], expected: str) -> None:
    policy = Policy(penalty=penalties(loads, Weights()))
    request = Request(available=ids(A, *TEN) + ids(B, *TEN), size=1)

    assert gpus_of(prefer(request, make_inventory(2), policy), make_inventory(2)) == (expected,)


def test_a_burst_is_spread_though_load_lags_behind() -> None:
    policy = Policy(penalty=penalties([load_of(A, busy=0.0), load_of(B, busy=0.2)], Weights()))

    assert Counter(place_one_by_one(make_inventory(2), policy, 20))[A] == 10


# ---------------------------------------------------------------------------------------------- properties
@st.composite
def requests(draw: st.DrawFn) -> tuple[Inventory, Request]:
    inventory = make_inventory(draw(st.integers(1, 6)), draw(st.integers(1, 12)))
    known = sorted(inventory.slot_of)
    available = draw(st.lists(st.sampled_from(known), unique=True))
    must = draw(st.lists(st.sampled_from(available), unique=True, max_size=3)) if available else []
    return inventory, Request(available=tuple(available), must=tuple(must), size=draw(st.integers(0, 12)))


policies = st.builds(
    Policy,
    strategy=st.sampled_from(Strategy),
    penalty=st.none() | st.dictionaries(st.sampled_from([A, B, C]), st.floats(0, 10)),
)


@given(requests(), policies)
def test_the_answer_has_the_asked_size_and_holds_what_it_must(
    given_request: tuple[Inventory, Request], policy: Policy
) -> None:
    inventory, request = given_request
    answer = prefer(request, inventory, policy)

    assert len(answer) == len(set(answer)) == min(request.size, len(request.available))
    assert set(answer) <= set(request.available)
    assert set(request.must[: request.size]) <= set(answer)


@given(requests(), policies)
def test_as_many_distinct_gpus_as_can_be(given_request: tuple[Inventory, Request], policy: Policy) -> None:
    inventory, request = given_request
    answer = prefer(request, inventory, policy)

    musts = gpus_of(request.must[: request.size], inventory)
    others = set(gpus_of(request.available, inventory)) - set(musts)
    possible = len(set(musts)) + min(len(others), len(answer) - len(musts))
    assert len(set(gpus_of(answer, inventory))) == possible


@given(requests(), policies, st.randoms())
def test_the_order_in_which_ids_come_changes_nothing(
    given_request: tuple[Inventory, Request], policy: Policy, random: st.DataObject
) -> None:
    inventory, request = given_request
    shuffled = list(request.available)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = Request(available=tuple(shuffled), must=request.must, size=request.size)

    assert prefer(again, inventory, policy) == prefer(request, inventory, policy)


@given(st.integers(1, 8), st.integers(1, 10), st.data())
def test_spread_keeps_equal_gpus_balanced_within_one(gpus: int, slots: int, data: st.DataObject) -> None:
    inventory = make_inventory(gpus, slots)
    placed = Counter(place_one_by_one(inventory, SPREAD, data.draw(st.integers(0, gpus * slots))))
    counts = [placed[shared.gpu.uuid] for shared in inventory.shared]

    assert max(counts) - min(counts) <= 1


def place_one_by_one(inventory: Inventory, policy: Policy, pods: int) -> list[str]:
    """Place so many pods with one slot each; return the GPU of each pod."""
    available = set(inventory.slot_of)
    gpus = []
    for _ in range(pods):
        (device_id,) = prefer(Request(available=tuple(available), size=1), inventory, policy)
        available.remove(device_id)
        gpus.append(decode(device_id).uuid)
    return gpus
