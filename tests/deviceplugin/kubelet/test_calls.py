"""The five calls over a real socket, and the files that they leave on the node."""

import json
import random
import shutil
import socket
import threading
from collections import Counter
from pathlib import Path

import grpc
import pytest

from contract.allocation import key_of
from contract.wire.load import GpuLoad, Load, encode_load
from contract.words.device_id import decode
from deviceplugin.core.events import DevicesRefused, GpuRecovered, GpuRefused, GpuUnhealthy, SchedulerSilent
from deviceplugin.settings import Inject
from tests.deviceplugin.running_plugin import RunPlugin, Setup
from tests.fakes.cdi_cache import CdiCache
from tests.fakes.gpus import make_gpu

A, B = (make_gpu(number).uuid for number in range(2))
A0, A1, B0 = f"{A}__0", f"{A}__1", f"{B}__0"


def test_every_slot_is_listed_and_healthy(setup: Setup) -> None:
    devices = setup.kubelet.wait_for_list()

    assert Counter(decode(device_id).uuid for device_id in devices) == {make_gpu(n).uuid: 10 for n in range(4)}
    assert all(devices.values())


def test_pods_one_after_the_other_are_spread_whatever_the_order_of_the_ids(setup: Setup) -> None:
    free = list(setup.kubelet.wait_for_list())
    for _ in range(40):
        random.shuffle(free)
        (chosen,) = setup.kubelet.prefer(free, 1)
        free.remove(chosen)
        left = Counter(decode(device_id).uuid for device_id in free)
        counts = [left[make_gpu(number).uuid] for number in range(4)]
        assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize(
    "odd", [["nonsense"], ["", ""], ["GPU-x__0", "\u2028"]], ids=["nonsense", "empty", "separator"]
)
def test_a_preference_is_given_whatever_is_asked(setup: Setup, odd: list[str]) -> None:
    assert len(setup.kubelet.prefer([*odd, A0], 1)) == 1


def test_by_cdi_the_answer_is_a_name_that_never_was_and_no_spec(setup: Setup) -> None:
    names = [setup.kubelet.allocate(A0, B0).cdi_devices[0].name for _ in range(2)]

    assert [name.rpartition("-")[0] for name in names] == [f"nvshare.com/vgpu={key_of([A0, B0])}"] * 2
    assert names[0] != names[1]
    assert list(setup.settings.layout.cdi.iterdir()) == []


def test_the_first_start_writes_one_spec_with_every_name_that_was_told(setup: Setup, cdi_cache: CdiCache) -> None:
    answers = [setup.kubelet.allocate(A0, B0) for _ in range(2)]
    setup.kubelet.start_container(A0, B0)

    (path,) = setup.settings.layout.cdi.iterdir()
    assert path.name == f"nvshare.com-vgpu_{key_of([A0, B0])}.json"
    for answer in answers:
        assert cdi_cache.inject(answer.cdi_devices[0].name)["device"]["env"] == [f"NVIDIA_VISIBLE_DEVICES={A},{B}"]
        assert not answer.envs
        assert not answer.mounts


def test_without_cdi_the_answer_is_environment_and_mounts(run_plugin: RunPlugin) -> None:
    setup = run_plugin(inject=Inject.MOUNTS)
    setup.kubelet.start()
    setup.kubelet.wait_for_list()
    answer = setup.kubelet.allocate(A0)
    layout = setup.settings.layout

    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": A}
    assert [(mount.host_path, mount.container_path, mount.read_only) for mount in answer.mounts] == [
        (str(layout.hook_folder), "/usr/lib/nvshare", True),
        (str(layout.preload_file), "/etc/ld.so.preload", True),
        (str(layout.allocation(key_of([A0]))), "/var/run/nvshare/mine", True),
    ]
    assert not answer.cdi_devices
    assert not layout.cdi.exists()


def test_the_allocation_folder_is_whole(setup: Setup) -> None:
    setup.kubelet.allocate(B0, A0)
    record = json.loads((setup.settings.layout.allocation(key_of([A0, B0])) / "allocation.json").read_text())

    assert record["uuids"] == [A, B]
    assert record["device_ids"] == [A0, B0]
    assert [path.name for path in setup.settings.layout.allocations.iterdir()] == [record["key"]]


def test_the_same_slots_again_reuse_the_folder_with_a_new_time(setup: Setup) -> None:
    record = setup.settings.layout.allocation(key_of([A0])) / "allocation.json"
    setup.kubelet.allocate(A0)
    first = json.loads(record.read_text())["created"]
    setup.kubelet.allocate(A0)

    assert json.loads(record.read_text())["created"] > first


@pytest.mark.parametrize(
    ("device_ids", "reason"),
    [
        pytest.param([A0, A1], "SameGpu", id="two slots of one GPU"),
        pytest.param(["GPU-ffff__0"], "UnknownDevice", id="a GPU that is not here"),
        pytest.param(["MIG-ffff__0"], "UnknownDevice", id="a MIG instance"),
        pytest.param([A0, B0, make_gpu(2).uuid + "__0"], "TooManyForContainer", id="more than allowed"),
    ],
)
def test_a_refusal_reaches_the_kubelet_with_its_reason(
    run_plugin: RunPlugin, device_ids: list[str], reason: str
) -> None:
    setup = run_plugin(max_per_container=2)
    setup.kubelet.start()
    setup.kubelet.wait_for_list()
    with pytest.raises(grpc.RpcError) as caught:
        setup.kubelet.allocate(*device_ids)

    assert str(caught.value.details()).startswith(f"{reason}: ")
    assert list(setup.settings.layout.allocations.iterdir()) == []


def test_a_node_that_cannot_be_written_is_a_refusal_and_not_a_crash(setup: Setup) -> None:
    setup.settings.layout.allocations.rmdir()
    setup.settings.layout.allocations.write_text("a file where the folder was")
    with pytest.raises(grpc.RpcError) as caught:
        setup.kubelet.allocate(A0)

    assert str(caught.value.details()).startswith("AllocationFailed: ")
    assert setup.kubelet.prefer([A0], 1) == [A0]


# ---------------------------------------------------------------------------------------------- before the start
def take_folder(setup: Setup, key: str) -> None:
    shutil.rmtree(setup.settings.layout.allocation(key))


def take_proof(setup: Setup, key: str) -> None:
    (setup.settings.layout.allocation(key) / "bound-1").unlink()


def take_spec(setup: Setup, key: str) -> None:
    next(setup.settings.layout.cdi.glob(f"*{key}*")).unlink()


def take_hook(setup: Setup, _key: str) -> None:
    setup.settings.layout.hook.unlink()


def take_preload_file(setup: Setup, _key: str) -> None:
    setup.settings.layout.preload_file.unlink()


@pytest.mark.parametrize(
    "take", [take_folder, take_proof, take_spec, take_hook, take_preload_file], ids=lambda it: it.__name__
)
def test_before_a_container_starts_missing_files_are_written_again(take: object, setup: Setup) -> None:
    key = key_of([A0, B0])
    setup.kubelet.allocate(A0, B0)
    setup.kubelet.write_checkpoint()
    setup.kubelet.start_container(B0, A0)
    take(setup, key)  # type: ignore[operator]
    setup.kubelet.start_container(B0, A0)

    layout = setup.settings.layout
    (spec,) = layout.cdi.glob(f"*{key}*")
    for mount in json.loads(spec.read_text())["containerEdits"]["mounts"]:
        assert Path(mount["hostPath"]).exists(), mount
    assert (layout.allocation(key) / "allocation.json").is_file()
    assert (layout.hook.read_bytes(), layout.preload_file.read_text()) == (
        b"hook 1",
        "/usr/lib/nvshare/libnvshare.so\n",
    )


def test_a_container_does_not_start_without_a_hook(setup: Setup) -> None:
    setup.kubelet.allocate(A0)
    setup.settings.layout.hook.unlink()
    setup.settings.hook_file.unlink()
    with pytest.raises(grpc.RpcError) as caught:
        setup.kubelet.start_container(A0)

    assert str(caught.value.details()).startswith("NodeNotReady: ")
    assert "--hook-file" in str(caught.value.details())


def test_a_container_waits_with_a_sentence_while_the_nodes_spec_is_torn(setup: Setup, cdi_cache: CdiCache) -> None:
    (device,) = setup.kubelet.allocate(A0).cdi_devices
    spec = setup.settings.static_cdi_folder / "nvidia.yaml"
    spec.parent.mkdir()
    spec.write_text("cdiVersion: 0.5.0")
    with pytest.raises(grpc.RpcError) as caught:
        setup.kubelet.start_container(A0)
    spec.unlink()
    setup.kubelet.start_container(A0)

    assert str(caught.value.details()).startswith(f"NoGpuDevices: {spec} cannot be used: its kind is None")
    assert "nvidia-ctk cdi generate" in setup.events.wait_for(DevicesRefused).sentence
    assert cdi_cache.inject(device.name)["device"]["env"] == [f"NVIDIA_VISIBLE_DEVICES={A}"]


def test_a_container_starts_without_a_scheduler_and_a_warning_says_so(setup: Setup) -> None:
    setup.kubelet.allocate(A0)
    setup.kubelet.start_container(A0)

    assert setup.events.wait_for(SchedulerSilent).allocation.key == key_of([A0])


def test_no_warning_where_a_scheduler_answers(setup: Setup) -> None:
    setup.kubelet.allocate(A0)
    with socket.socket(socket.AF_UNIX) as scheduler:
        scheduler.bind(str(setup.settings.layout.socket(key_of([A0]))))
        scheduler.listen()
        setup.kubelet.start_container(A0)

    assert not [each for each in setup.events.all if isinstance(each, SchedulerSilent)]


# ---------------------------------------------------------------------------------------------- health
def healthy(uuid: str, *, wanted: bool) -> object:
    """Return whether all slots of the GPU have this health, and all others are healthy."""
    return lambda devices: all(
        is_healthy is (wanted or decode(key).uuid != uuid) for key, is_healthy in devices.items()
    )


def test_all_slots_of_a_gpu_become_unhealthy_and_healthy_together(setup: Setup) -> None:
    before = setup.kubelet.lists
    gone = setup.library.gpus.pop(A)
    setup.kubelet.wait_for_list(healthy(A, wanted=False), after=before)
    setup.events.wait_for(GpuUnhealthy)
    between = setup.kubelet.lists
    setup.library.gpus[A] = gone
    setup.kubelet.wait_for_list(healthy(A, wanted=True), after=between)

    assert setup.events.wait_for(GpuRecovered).uuid == A
    assert between - before == 1, "one change is one list: the kubelet writes its checkpoint at each"


def test_a_critical_xid_makes_the_gpu_unhealthy_for_a_time_and_an_applications_does_not(setup: Setup) -> None:
    before = setup.kubelet.lists
    setup.library.raise_xid(A, 13)
    setup.library.raise_xid(None, 79)
    setup.library.raise_xid(B, 48)
    setup.kubelet.wait_for_list(healthy(B, wanted=False), after=before)
    setup.kubelet.wait_for_list(healthy(B, wanted=True), after=before + 1)

    assert [each.uuid for each in setup.events.all if isinstance(each, GpuUnhealthy)] == [B]
    assert "XID 48" in setup.events.wait_for(GpuUnhealthy).why


def test_a_gpu_that_is_added_is_shared(setup: Setup) -> None:
    added = make_gpu(9)
    setup.library.gpus[added.uuid] = added

    assert setup.kubelet.wait_for_list(lambda devices: len(devices) == 50)[f"{added.uuid}__9"]


def test_a_mig_card_is_refused_and_neither_it_nor_an_instance_is_listed(setup: Setup) -> None:
    setup.kubelet.wait_for_list()
    card, added = make_gpu(8, mig=True), make_gpu(9)
    setup.library.gpus |= {card.uuid: card, added.uuid: added}

    uuids = {decode(device_id).uuid for device_id in setup.kubelet.wait_for_list(lambda devices: len(devices) > 40)}
    assert uuids == {make_gpu(number).uuid for number in (0, 1, 2, 3, 9)}
    refused = setup.events.wait_for(GpuRefused)
    assert (refused.uuid, refused.refusal.code) == (card.uuid, "MigEnabled")
    assert "MIG cards and their instances are not shared" in refused.refusal.cause
    assert f"nvidia-smi -i {card.uuid} -mig 0" in refused.refusal.remedy


def test_no_gpu_is_removed_while_nvml_does_not_answer(setup: Setup) -> None:
    setup.library.answers = False
    assert setup.library.was_refused.wait(10)
    added = make_gpu(9)
    setup.library.gpus[added.uuid] = added
    setup.library.answers = True

    assert all(setup.kubelet.wait_for_list(lambda devices: len(devices) == 50).values())


def answer_load(path: Path, *loads: GpuLoad) -> socket.socket:
    """Run a scheduler that answers one question after the other, until closed."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def answer() -> None:
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            with connection:
                connection.recv(64)
                connection.sendall(encode_load(Load(loads, 0)))

    threading.Thread(target=answer, daemon=True).start()
    return listener


def test_a_drained_gpu_is_unhealthy(setup: Setup) -> None:
    before = setup.kubelet.lists
    scheduler = answer_load(setup.settings.control_socket, GpuLoad(uuid=A, drained=True))
    setup.kubelet.wait_for_list(healthy(A, wanted=False), after=before)
    scheduler.shutdown(socket.SHUT_RDWR)

    assert setup.events.wait_for(GpuUnhealthy).why == "an operator has drained it"
