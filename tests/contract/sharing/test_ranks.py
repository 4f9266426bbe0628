"""The rank of each GPU at each choice, and what an inventory compares and looks up."""

import pytest

from contract.sharing.inventory import Gpu, Inventory, Shared
from contract.sharing.placement import Policy, Request, Strategy, choose, prefer
from contract.words.device_id import Slot

A, B, C = (f"GPU-{number:08x}-0000-0000-0000-000000000000" for number in range(3))


def inventory_of(*gpus: Gpu, slots: int = 4) -> Inventory:
    return Inventory(tuple(Shared(gpu, slots) for gpu in gpus))


def gpu(uuid: str, numa: int | None = None) -> Gpu:
    return Gpu(uuid=uuid, model="Test GPU", numa=numa)


def ids(uuid: str, *ordinals: int) -> tuple[str, ...]:
    return tuple(str(Slot(uuid, ordinal)) for ordinal in ordinals)


TWO = inventory_of(gpu(A), gpu(B))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(Policy(), (0, 0, -0.75, -3, 0, A), id="spread: the freest first"),
        pytest.param(Policy(strategy=Strategy.PACK), (0, 0, 0.75, 3, 0, A), id="pack: the fullest first"),
        pytest.param(
            Policy(penalty={A: 0.5}), (0, 0, 0.75, -0.75, -3, 0, A), id="by load: the penalty and the taken quarter"
        ),
        pytest.param(
            Policy(penalty={}, taken_weight=2.0), (0, 0, 0.5, -0.75, -3, 0, A), id="the weight of the taken quarter"
        ),
        pytest.param(
            Policy(penalty={A: 0.12345649}, taken_weight=0.0), (0, 0, 0.123456, -0.75, -3, 0, A), id="six digits count"
        ),
    ],
)
def test_the_rank_of_a_gpu(policy: Policy, expected: tuple[object, ...]) -> None:
    (step,) = choose(Request(available=ids(A, 0, 1, 2), size=1), TWO, policy)

    assert (step.device_id, step.ranks[A]) == (ids(A, 0)[0], expected)


@pytest.mark.parametrize("policy", [Policy(), Policy(penalty={})])
def test_a_gpu_that_the_inventory_does_not_know_ranks_behind(policy: Policy) -> None:
    (step,) = choose(Request(available=("odd", *ids(A, 0)), size=1), TWO, policy)

    assert step.ranks["odd"][:2] == (0, 1)
    assert step.device_id == ids(A, 0)[0]


@pytest.mark.parametrize("policy", [Policy(), Policy(penalty={})])
def test_an_unknown_gpu_has_no_free_share(policy: Policy) -> None:
    (step,) = choose(Request(available=("odd",), size=1), TWO, policy)

    assert step.ranks["odd"][-4:] == (0.0, -1, 0, "odd")


@pytest.mark.parametrize("policy", [Policy(), Policy(penalty={})])
def test_each_slot_given_counts_one(policy: Policy) -> None:
    steps = choose(Request(available=ids(A, 0, 1, 2, 3), must=ids(A, 0), size=3), TWO, policy)

    assert [dict(step.ranks).get(A, (None,))[0] for step in steps] == [None, 1, 2]


@pytest.mark.parametrize(
    ("near", "numas", "far"),
    [
        pytest.param(0, (0, 1), [0, 1], id="another node of memory is far"),
        pytest.param(None, (0, 1), [0, 0], id="nothing given has a known node: none is far"),
        pytest.param(0, (None, 1), [0, 1], id="a GPU of unknown node is not far"),
    ],
)
@pytest.mark.parametrize("policy", [Policy(), Policy(penalty={})])
def test_how_far_memory_is(policy: Policy, near: int | None, numas: tuple[int | None, int], far: list[int]) -> None:
    inventory = inventory_of(gpu(A, near), gpu(B, numas[0]), gpu(C, numas[1]))
    steps = choose(Request(available=ids(B, 0) + ids(C, 0), must=ids(A, 0), size=2), inventory, policy)

    assert [steps[1].ranks[uuid][-2] for uuid in (B, C)] == far


def test_memory_close_to_any_gpu_given_is_near() -> None:
    inventory = inventory_of(gpu(A, 0), gpu(B, 1), gpu(C, 1))
    steps = choose(Request(available=ids(A, 0) + ids(B, 0) + ids(C, 0), size=3), inventory, Policy())

    assert [step.ranks[C][-2] for step in steps] == [0, 1, 0]


def test_the_slots_of_one_gpu_are_given_from_the_lowest() -> None:
    assert prefer(Request(available=ids(A, 3, 0, 2), size=3), TWO, Policy()) == ids(A, 0, 2, 3)


def test_an_inventory_is_compared_by_what_is_shared() -> None:
    assert inventory_of(gpu(A)) == inventory_of(gpu(A)) != inventory_of(gpu(B))


def test_an_inventory_looks_up_slots_and_memory() -> None:
    inventory = inventory_of(gpu(A, 1), gpu(B), slots=2)

    assert dict(inventory.slot_of) == {str(slot): slot for slot in (Slot(A, 0), Slot(A, 1), Slot(B, 0), Slot(B, 1))}
    assert (inventory.slots_on, inventory.numa_of) == ({A: 2, B: 2}, {A: 1, B: None})
    assert inventory.shared[0].ids() == ids(A, 0, 1)


def test_what_nvml_does_not_know_of_a_gpu() -> None:
    unknown = Gpu(uuid=A, model="m")

    assert (unknown.memory_bytes, unknown.compute, unknown.pci, unknown.numa, unknown.mig) == (0, "", "", None, False)
