"""The metrics of one moment."""

from prometheus_client import CollectorRegistry, generate_latest

from deviceplugin.core.device_list import DeviceList
from deviceplugin.core.inventory import Rules, take_stock
from deviceplugin.core.retention import Assignment, Ownership
from deviceplugin.gpus.publisher import Publisher
from deviceplugin.reporting.metrics import NodeCollector
from tests.fakes.gpus import make_gpu

A, B, CUT = make_gpu(0), make_gpu(1), make_gpu(2, mig=True)
BOOKS = Ownership((Assignment("ns", "train", "main", (f"{A.uuid}__0", f"{B.uuid}__3")),))


def lines(ownership: Ownership | None) -> list[str]:
    registry = CollectorRegistry()
    device_list = DeviceList(take_stock([A, B, CUT], Rules(slots=10)), frozenset({B.uuid}))
    registry.register(NodeCollector(Publisher(device_list), lambda: ownership, lambda: True, lambda: {"List": False}))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_each_containers_gpus_are_metrics() -> None:
    told = lines(BOOKS)

    for gpu in (A, B):
        words = f'container="main",namespace="ns",pod="train",uuid="{gpu.uuid}"'
        assert f"nvshare_device_plugin_assignment{{{words}}} 1.0" in told


def test_slots_health_and_refusals_are_metrics() -> None:
    told = lines(BOOKS)

    assert f'nvshare_device_plugin_slots{{model="Test GPU",uuid="{A.uuid}"}} 10.0' in told
    assert f'nvshare_device_plugin_free_slots{{uuid="{A.uuid}"}} 9.0' in told
    assert f'nvshare_device_plugin_free_slots{{uuid="{B.uuid}"}} 0.0' in told
    assert f'nvshare_device_plugin_gpu_healthy{{uuid="{B.uuid}"}} 0.0' in told
    assert f'nvshare_device_plugin_gpu_refused{{reason="MigEnabled",uuid="{CUT.uuid}"}} 1.0' in told
    assert "nvshare_device_plugin_load_fresh 1.0" in told
    assert 'nvshare_device_plugin_pod_resources_up{call="List"} 0.0' in told


def test_a_pod_that_is_gone_leaves_no_label_behind() -> None:
    assert not [line for line in lines(Ownership()) if "assignment" in line]


def test_unknown_values_have_no_metric() -> None:
    assert not [line for line in lines(None) if "free_slots" in line]
