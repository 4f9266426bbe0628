"""The exact moment and the exact number at which each rule of the core turns over."""

import pytest

from contract.allocation import Allocation
from contract.sharing.inventory import Gpu, Inventory, Shared
from deviceplugin.core.allocation import allocate
from deviceplugin.core.device_list import DeviceList
from deviceplugin.core.foreign_gpus import ForeignGpu, read_foreign, remember, render_foreign, resources
from deviceplugin.core.health import WELL, GpuHealth, answer, is_stuck, lose, raise_xid
from deviceplugin.core.inventory import Rules, take_stock
from deviceplugin.core.node_labels import NodeLabels, describe_node, enough_room
from deviceplugin.core.node_writes import LabelsReport, labels_failed, labels_written, must_write_labels
from deviceplugin.core.registration import Cause, RegistrationState, Seen, cause_to_renew
from deviceplugin.core.registration import lose as lose_kubelet
from deviceplugin.core.retention import Assignment, Ownership, Unused, free_slots, is_in_use, release
from deviceplugin.core.xids import XIDS, Meaning
from tests.fakes.gpus import make_gpu, make_inventory

A, B, C = (make_gpu(number).uuid for number in range(3))
A0, A1, B0 = f"{A}__0", f"{A}__1", f"{B}__0"
ALLOCATION: Allocation = allocate((A0,), make_inventory(2), most=0, now=0.0)


# ---------------------------------------------------------------------------------------------- health
@pytest.mark.parametrize(
    ("xids", "quiet"), [(0, 30.0), (1, 60.0), (2, 120.0), (6, 1920.0), (7, 3840.0), (8, 3840.0), (99, 3840.0)]
)
def test_each_further_xid_doubles_the_quiet_time_seven_times_at_most(xids: int, quiet: float) -> None:
    health = raise_xid(GpuHealth(xids=xids), 48, now=100.0, quiet_seconds=30.0)

    assert (health.well_from, health.xids) == (100.0 + quiet, xids + 1)


def test_an_earlier_trouble_that_lasts_longer_is_not_shortened() -> None:
    long = GpuHealth("trouble", well_from=1000.0)

    assert raise_xid(long, 48, now=0.0, quiet_seconds=30.0).well_from == 1000.0
    assert lose(long, now=0.0, quiet_seconds=30.0).well_from == 1000.0


@pytest.mark.parametrize(("xids", "forgotten_at"), [(1, 60.0), (2, 120.0), (7, 3840.0), (8, 3840.0)])
def test_xids_are_forgotten_after_the_doubled_quiet_time(xids: int, forgotten_at: float) -> None:
    health = GpuHealth(well_from=10.0, xids=xids)

    assert answer(health, now=10.0 + forgotten_at - 0.1, quiet_seconds=30.0) == health
    assert answer(health, now=10.0 + forgotten_at, quiet_seconds=30.0) == WELL


def test_a_gpu_is_well_from_the_very_end_of_its_quiet_time() -> None:
    lost = lose(WELL, now=5.0, quiet_seconds=30.0)

    assert lost == GpuHealth("it does not answer", well_from=35.0)
    assert answer(lost, now=34.9, quiet_seconds=30.0) == lost
    assert answer(lost, now=35.0, quiet_seconds=30.0) == GpuHealth(None, well_from=35.0)


@pytest.mark.parametrize(("silent", "stuck"), [(60.0, False), (60.1, True), (61.0, True)])
def test_a_watch_is_stuck_after_a_minute_of_silence(silent: float, stuck: bool) -> None:
    assert is_stuck(100.0, now=100.0 + silent) is stuck


def test_every_known_xid_has_its_meaning() -> None:
    by_meaning = {one: {number for number, (meaning, _) in XIDS.items() if meaning is one} for one in Meaning}

    assert by_meaning == {
        Meaning.APPLICATION: {13, 31, 43, 45, 68, 94},
        Meaning.NOTE: {63, 92},
        Meaning.CRITICAL: {48, 61, 62, 64, 69, 74, 79, 95, 109, 119, 120, 140},
    }


@pytest.mark.parametrize("life", [RegistrationState(), LabelsReport()])
def test_at_the_very_beginning_nothing_is_waited_for(life: RegistrationState | LabelsReport) -> None:
    assert life.not_before == 0.0


# ---------------------------------------------------------------------------------------------- registration
STEADY = RegistrationState(registered_with=(1, 2, 3), registered_at=100.0, tried_with=(1, 2, 3), troubles=2)


@pytest.mark.parametrize(
    ("life", "cause", "now", "troubles", "wait"),
    [
        pytest.param(STEADY, Cause.STREAM_ENDED, 130.0, 3, 0.4, id="30 s of listening are not yet steady"),
        pytest.param(STEADY, Cause.STREAM_ENDED, 130.1, 0, 0.0, id="after 30 s the troubles before are forgotten"),
        pytest.param(
            RegistrationState(troubles=2), Cause.STREAM_ENDED, 999.0, 3, 0.4, id="who was not registered was not steady"
        ),
        pytest.param(STEADY, Cause.KUBELET_RESTARTED, 101.0, 0, 0.0, id="another kubelet is no trouble"),
        pytest.param(STEADY, Cause.FIRST, 101.0, 0, 0.0, id="nor is the first"),
        pytest.param(RegistrationState(troubles=6), Cause.REGISTER_FAILED, 0.0, 7, 6.4, id="the seventh trouble"),
        pytest.param(RegistrationState(troubles=7), Cause.REGISTER_FAILED, 0.0, 8, 10.0, id="ten seconds at most"),
    ],
)
def test_how_long_a_new_server_waits(
    life: RegistrationState, cause: Cause, now: float, troubles: int, wait: float
) -> None:
    after = lose_kubelet(life, cause, now=now)

    assert (after.tried_with, after.troubles, after.pending) == (life.tried_with, troubles, cause)
    assert after.not_before == pytest.approx(now + wait)


@pytest.mark.parametrize(("now", "cause"), [(115.0, None), (115.1, Cause.STREAM_NEVER_CAME)])
def test_a_kubelet_has_fifteen_seconds_to_listen(now: float, cause: Cause | None) -> None:
    assert cause_to_renew(STEADY, Seen(kubelet=(1, 2, 3)), now=now) is cause


@pytest.mark.parametrize(("now", "cause"), [(4.9, None), (5.0, Cause.SOCKET_REMOVED)])
def test_the_wait_ends_on_time(now: float, cause: Cause | None) -> None:
    life = RegistrationState(tried_with=(1, 2, 3), not_before=5.0, pending=Cause.SOCKET_REMOVED)

    assert cause_to_renew(life, Seen(kubelet=(1, 2, 3)), now=now) is cause


# ---------------------------------------------------------------------------------------------- retention
@pytest.mark.parametrize(
    ("kept", "now", "goes"),
    [
        pytest.param(frozenset(), 59.9, False, id="not before its time"),
        pytest.param(frozenset(), 60.0, True, id="at its time"),
        pytest.param(None, 599.9, False, id="ten times later where the checkpoint is unreadable"),
        pytest.param(None, 600.0, True, id="then it goes all the same"),
    ],
)
def test_when_an_unused_folder_goes(kept: frozenset[frozenset[str]] | None, now: float, goes: bool) -> None:
    waiting = {ALLOCATION.key: Unused(ALLOCATION, 0.0)}
    gone, still = release([ALLOCATION], Ownership((), kept), waiting, now=now, seconds=60.0)

    assert (gone, still) == (([ALLOCATION], {}) if goes else ([], waiting))


def test_an_allocation_in_use_does_not_hide_those_after_it() -> None:
    other = allocate((B0,), make_inventory(2), most=0, now=0.0)
    gone, _ = release([ALLOCATION, other], Ownership((), frozenset({frozenset({A0})})), {}, now=0.0, seconds=0.0)

    assert gone == [other]


def test_one_that_is_allocated_again_waits_from_the_beginning() -> None:
    again = allocate((A0,), make_inventory(2), most=0, now=50.0)
    waiting = {again.key: Unused(ALLOCATION, 0.0)}

    assert release([again], Ownership((), frozenset()), waiting, now=70.0, seconds=60.0) == (
        [],
        {again.key: Unused(again, 70.0)},
    )


def test_what_pod_resources_shows_is_in_use_though_the_checkpoint_lacks_it() -> None:
    ownership = Ownership((Assignment("ns", "other", "c", (B0,)), Assignment("ns", "pod", "c", (A0,))), frozenset())

    assert is_in_use(ALLOCATION, ownership)


def test_free_slots_are_all_but_those_taken_by_anybody() -> None:
    ownership = Ownership((Assignment("ns", "pod", "c", (A0, "odd")),), frozenset({frozenset({A1})}))
    device_list = DeviceList(make_inventory(3, 4), frozenset({C}))

    assert free_slots(device_list, ownership) == {A: 2, B: 4, C: 0}


# ---------------------------------------------------------------------------------------------- the Node's words
WORDS, OTHERS = NodeLabels({"a": "1"}, {}), NodeLabels({"a": "2"}, {})


@pytest.mark.parametrize(
    ("report", "words", "now", "urgent", "expected"),
    [
        pytest.param(LabelsReport(), WORDS, 0.0, False, True, id="nothing was told yet"),
        pytest.param(LabelsReport(WORDS, 0.0, 5.0), OTHERS, 4.9, False, False, id="not before the rate allows"),
        pytest.param(LabelsReport(WORDS, 0.0, 5.0), OTHERS, 5.0, False, True, id="as soon as the rate allows"),
        pytest.param(LabelsReport(WORDS, 0.0, 5.0), OTHERS, 1.0, True, True, id="urgent words do not wait"),
        pytest.param(LabelsReport(WORDS, 0.0, 5.0, 1), OTHERS, 1.0, True, False, id="they do after a failure"),
        pytest.param(LabelsReport(WORDS, 0.0, 5.0), WORDS, 299.9, False, False, id="the same words are left alone"),
        pytest.param(LabelsReport(WORDS, 0.0, 5.0), WORDS, 300.0, False, True, id="for five minutes"),
    ],
)
def test_when_the_node_is_told(
    report: LabelsReport, words: NodeLabels, now: float, urgent: bool, expected: bool
) -> None:
    assert must_write_labels(report, words, now=now, urgent=urgent) is expected


@pytest.mark.parametrize(("failures", "wait"), [(0, 5.0), (1, 10.0), (3, 40.0), (4, 60.0), (20, 60.0), (5000, 60.0)])
def test_each_failure_doubles_the_wait_up_to_a_minute(failures: int, wait: float) -> None:
    after = labels_failed(LabelsReport(WORDS, 1.0, 2.0, failures), now=100.0, seconds=5.0)

    assert after == LabelsReport(WORDS, 1.0, 100.0 + wait, failures + 1)


def test_what_was_told_is_remembered() -> None:
    assert labels_written(WORDS, now=100.0, seconds=5.0) == LabelsReport(WORDS, 100.0, 105.0, 0)


def device_list_of(*gpus: Gpu, unhealthy: frozenset[str] = frozenset()) -> DeviceList:
    return DeviceList(Inventory(tuple(Shared(gpu, 10) for gpu in gpus)), unhealthy)


@pytest.mark.parametrize(
    ("gpus", "label", "expected"),
    [
        pytest.param((make_gpu(0), make_gpu(1, memory_bytes=8 << 30)), "memory", "8192", id="the least memory, in MiB"),
        pytest.param((make_gpu(0), make_gpu(1, memory_bytes=0)), "memory", "16384", id="unknown memory is left out"),
        pytest.param((make_gpu(0, memory_bytes=0),), "memory", None, id="no memory is known"),
        pytest.param((make_gpu(0), make_gpu(1, compute="10.0")), "compute", "9.0", id="9.0 is less than 10.0"),
        pytest.param((make_gpu(0), make_gpu(1, compute="")), "compute", "9.0", id="unknown compute is left out"),
        pytest.param((make_gpu(0, compute=""),), "compute", None, id="no compute is known"),
        pytest.param((make_gpu(0), make_gpu(1, model="ForeignGpu")), "model", "mixed", id="two models"),
        pytest.param((make_gpu(0), make_gpu(1)), "model", "Test-GPU", id="one model"),
        pytest.param((), "model", None, id="no GPU"),
    ],
)
def test_the_labels_of_several_gpus(gpus: tuple[Gpu, ...], label: str, expected: str | None) -> None:
    labels = describe_node(device_list_of(*gpus), {}).labels

    assert {key.rpartition(".")[2]: value for key, value in labels.items()}.get(label) == expected


@pytest.mark.parametrize(
    ("free", "refused", "count"),
    [
        pytest.param({A: 1, B: 0, C: 5}, 0, "2", id="nobody was refused: the healthy ones"),
        pytest.param({A: 1, B: 0, C: 5}, 1, "2", id="one with room is enough for one"),
        pytest.param({A: 1, B: 0, C: 5}, 2, "1", id="two were asked and one has room"),
        pytest.param({A: 0, B: 0}, 1, "0", id="none has room"),
    ],
)
def test_how_many_gpus_are_counted(free: dict[str, int], refused: int, count: str) -> None:
    device_list = device_list_of(make_gpu(0), make_gpu(1), make_gpu(2), unhealthy=frozenset({C}))
    labels = describe_node(device_list, free, refused_size=refused).labels

    assert [value for key, value in labels.items() if key.endswith("count")] == [count]


@pytest.mark.parametrize(("size", "expected"), [(0, True), (1, True), (2, False)])
def test_whether_enough_healthy_gpus_have_room(size: int, expected: bool) -> None:
    device_list = device_list_of(make_gpu(0), make_gpu(1), make_gpu(2), unhealthy=frozenset({C}))

    assert enough_room(device_list, {A: 1, B: 0, C: 3}, size) is expected


# ---------------------------------------------------------------------------------------------- other plugins
@pytest.mark.parametrize(
    ("since", "is_whole", "now", "expected"),
    [
        pytest.param(None, True, 100.0, ForeignGpu("r", 100.0), id="the first look without it begins the grace"),
        pytest.param(90.0, True, 100.0, ForeignGpu("r", 90.0), id="the grace goes on"),
        pytest.param(40.0, True, 100.0, ForeignGpu("r", 40.0), id="to its very end"),
        pytest.param(39.9, True, 100.0, None, id="then it is forgotten"),
        pytest.param(0.0, False, 100.0, ForeignGpu("r"), id="a look that is not whole begins it anew"),
    ],
)
def test_how_long_another_plugins_gpu_is_remembered(
    since: float | None, is_whole: bool, now: float, expected: ForeignGpu | None
) -> None:
    found = remember({A: ForeignGpu("r", since)}, {}, now=now, seconds=60.0, is_whole=is_whole)

    assert found.get(A) == expected


def test_a_gpu_that_is_shown_again_has_its_new_resource() -> None:
    found = remember({A: ForeignGpu("old", 1.0)}, {A: "new"}, now=2.0, seconds=60.0, is_whole=True)

    assert found == {A: ForeignGpu("new")}
    assert resources(found) == {A: "new"}


def test_a_note_of_others_is_sorted_and_read_back() -> None:
    text = render_foreign({B: "s", A: "r"})

    assert text == f"{A} r\n{B} s\n"
    assert read_foreign(text + "half\na b c\n x\nx \n") == {A: "r", B: "s"}


@pytest.mark.parametrize(("slots", "shared"), [(1, True), (1000, True), (0, False)])
def test_how_many_slots_a_gpu_can_have(slots: int, shared: bool) -> None:
    assert bool(take_stock([make_gpu(0)], Rules(slots=slots)).shared) is shared


def test_where_nobody_was_refused_all_healthy_gpus_count() -> None:
    labels = describe_node(device_list_of(make_gpu(0), make_gpu(1)), {}).labels

    assert [value for key, value in labels.items() if key.endswith("count")] == ["2"]


def test_a_gpu_of_which_no_free_slot_is_known_has_no_room() -> None:
    labels = describe_node(device_list_of(make_gpu(0), make_gpu(1)), {A: 1}, refused_size=2).labels

    assert [value for key, value in labels.items() if key.endswith("count")] == ["1"]


def test_words_are_not_urgent_unless_said_so() -> None:
    assert not must_write_labels(LabelsReport(WORDS, 0.0, 5.0), OTHERS, now=1.0)


def test_what_is_known_at_the_beginning() -> None:
    assert GpuHealth() == GpuHealth(trouble=None, well_from=0.0, xids=0)
    assert LabelsReport() == LabelsReport(told=None, told_at=0.0, not_before=0.0, failures=0)
    assert RegistrationState() == RegistrationState(
        registered_with=None, registered_at=0.0, tried_with=None, troubles=0, not_before=0.0, pending=Cause.FIRST
    )
