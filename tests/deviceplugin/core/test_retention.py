"""How long an allocation's folder stays, and which slots are free."""

import pytest

from contract.allocation import Allocation
from deviceplugin.core.allocation import allocate
from deviceplugin.core.checkpoint import parse_checkpoint, parse_foreign
from deviceplugin.core.device_list import DeviceList
from deviceplugin.core.retention import Assignment, Ownership, free_slots, kept_by_checkpoint_alone, release
from tests.fakes.gpus import make_gpu, make_inventory

INVENTORY = make_inventory(2)
A, B = (make_gpu(number).uuid for number in range(2))
A0, A1, B0 = f"{A}__0", f"{A}__1", f"{B}__0"


def made(*device_ids: str, at: float = 0.0) -> Allocation:
    return allocate(device_ids, INVENTORY, most=0, now=at)


def shown(*device_ids: str) -> tuple[Assignment, ...]:
    return (Assignment("ns", "pod", "main", device_ids),)


def kept(*sets: tuple[str, ...]) -> frozenset[frozenset[str]]:
    return frozenset(map(frozenset, sets))


INIT, BOTH = made(A0), made(A0, B0)


@pytest.mark.parametrize(
    ("ownership", "staying"),
    [
        pytest.param(
            Ownership(shown(A0, B0), kept((A0,), (A0, B0))), {INIT, BOTH}, id="init container before two vGPUs"
        ),
        pytest.param(Ownership((), kept((A0,))), {INIT}, id="init container alone: pod-resources says nothing of it"),
        pytest.param(Ownership((), kept()), set(), id="nobody has them"),
        pytest.param(
            Ownership(shown(A0), kept((A0,))), {INIT}, id="the pair is over, though one of its slots has a new pod"
        ),
        pytest.param(Ownership((), kept((A0,), (A0, B0))), {INIT, BOTH}, id="pod-resources is empty after a restart"),
        pytest.param(
            Ownership(shown(A0), None), {INIT, BOTH}, id="checkpoint unreadable: any slot in use keeps a folder"
        ),
        pytest.param(Ownership((), None), set(), id="checkpoint unreadable, nothing in use"),
    ],
)
def test_folders_that_stay(ownership: Ownership, staying: set[Allocation]) -> None:
    _, waiting = release([INIT, BOTH], ownership, {}, now=0.0, seconds=60.0)
    gone, _ = release([INIT, BOTH], ownership, waiting, now=600.0, seconds=60.0)

    assert {INIT, BOTH} - set(gone) == staying


def test_a_folder_goes_only_after_its_slots_were_unused_for_the_whole_time() -> None:
    unused, used = Ownership((), kept()), Ownership(shown(A0), kept((A0,)))
    waiting: dict[str, object] = {}
    for now, ownership in ((0.0, unused), (50.0, unused), (55.0, used), (60.0, unused), (119.0, unused)):
        gone, waiting = release([INIT], ownership, waiting, now=now, seconds=60.0)  # type: ignore[arg-type,assignment]
        assert not gone

    assert release([INIT], unused, waiting, now=120.0, seconds=60.0)[0] == [INIT]  # type: ignore[arg-type]


def test_slots_allocated_again_start_their_wait_again() -> None:
    unused = Ownership((), kept())
    _, waiting = release([INIT], unused, {}, now=0.0, seconds=60.0)
    again = made(A0, at=59.0)

    assert release([again], unused, waiting, now=61.0, seconds=60.0)[0] == []


def test_without_a_checkpoint_a_folder_stays_ten_times_longer() -> None:
    unused = Ownership((), None)
    _, waiting = release([INIT], unused, {}, now=0.0, seconds=60.0)

    assert release([INIT], unused, waiting, now=599.0, seconds=60.0)[0] == []
    assert release([INIT], unused, waiting, now=600.0, seconds=60.0)[0] == [INIT]


def test_slots_that_only_the_checkpoint_shows_are_returned() -> None:
    assert kept_by_checkpoint_alone(Ownership(shown(B0), kept((A0,), (B0,)))) == kept((A0,))
    assert not kept_by_checkpoint_alone(Ownership(shown(A0), kept((A0,))))
    assert not kept_by_checkpoint_alone(Ownership((), None))


MANY = (*shown(A0, B0), Assignment("ns", "p2", "c", (A1,)), Assignment("ns", "p3", "c", ("GPU-gone__1",)))


@pytest.mark.parametrize(
    ("ownership", "unhealthy", "free"),
    [
        pytest.param(Ownership(MANY), (), {A: 8, B: 9}, id="what pod-resources leaves"),
        pytest.param(Ownership(MANY), (A,), {A: 0, B: 9}, id="none of an unhealthy GPU"),
        pytest.param(Ownership((), kept((A0,), (A1,))), (), {A: 8, B: 10}, id="init containers alone have them"),
        pytest.param(
            Ownership(shown(A0), kept((A0,), (A0, B0))), (), {A: 9, B: 9}, id="init container and those after it: once"
        ),
        pytest.param(Ownership((), kept(("GPU-gone__1",))), (), {A: 10, B: 10}, id="of a GPU that is not shared"),
    ],
)
def test_free_slots_are_those_that_no_container_has(
    ownership: Ownership, unhealthy: tuple[str, ...], free: dict[str, int]
) -> None:
    assert free_slots(DeviceList(INVENTORY, frozenset(unhealthy)), ownership) == free


GOOD = """{"Data": {"PodDeviceEntries": [
  {"PodUID": "u", "ContainerName": "init", "ResourceName": "r/gpu", "DeviceIDs": {"-1": ["a", "b"]}, "AllocResp": ""},
  {"PodUID": "u", "ContainerName": "main", "ResourceName": "r/gpu", "DeviceIDs": {"0": ["a"], "1": ["c"]}},
  {"PodUID": "u", "ContainerName": "main", "ResourceName": "other", "DeviceIDs": {"-1": ["x"]}}],
  "RegisteredDevices": {"r/gpu": ["a", "b", "c"]}}, "Checksum": 1}"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(GOOD, kept(("a", "b"), ("a", "c")), id="each container's ids, whatever their NUMA node"),
        pytest.param('{"Data": {"PodDeviceEntries": null}}', kept(), id="nobody has anything"),
        pytest.param("", None, id="empty"),
        pytest.param("{}", None, id="another form"),
        pytest.param('{"Data": {"PodDeviceEntries": [{"ResourceName": "r/gpu"}]}}', None, id="an entry without ids"),
        pytest.param(
            '{"Data": {"PodDeviceEntries": [{"ResourceName": "r/gpu", "DeviceIDs": ["a"]}]}}',
            None,
            id="ids as before 1.20",
        ),
        pytest.param("[1]", None, id="a list"),
    ],
)
def test_the_kubelets_checkpoint_is_read_or_counts_as_unknown(text: str, expected: object) -> None:
    assert parse_checkpoint(text, "r/gpu") == expected


OTHERS = """{"Data": {"PodDeviceEntries": [
  {"PodUID": "u", "ContainerName": "init", "ResourceName": "nvidia.com/gpu", "DeviceIDs": {"-1": ["GPU-a"]}},
  {"PodUID": "u", "ContainerName": "main", "ResourceName": "r/gpu", "DeviceIDs": {"-1": ["GPU-z__0"]}}],
  "RegisteredDevices": {"r/gpu": ["GPU-z__0"], "nvidia.com/gpu": ["GPU-b::3"], "nic": ["eth0"], "gone": null}}}"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            OTHERS, {"GPU-a": "nvidia.com/gpu", "GPU-b": "nvidia.com/gpu"}, id="given out, and in pods' hands"
        ),
        pytest.param('{"Data": {"PodDeviceEntries": null}}', {}, id="nobody has anything"),
        pytest.param("[1]", {}, id="another form"),
    ],
)
def test_other_plugins_gpus_are_read_from_the_checkpoint(text: str, expected: dict[str, str]) -> None:
    assert parse_foreign(text, "r/gpu") == expected
