"""The generated code is that of the descriptions, and the services are the kubelet's."""

from pathlib import Path

import pytest

from deviceplugin.kubelet_api import DEVICE_PLUGIN, REGISTRATION, messages
from tests.deviceplugin.kubelet.generate_kubelet_api import API, ROOT, generate


def test_the_generated_files_are_not_stale(tmp_path: Path) -> None:
    generate(tmp_path)
    made = tmp_path / API.relative_to(ROOT)
    fresh = {path.name: path.read_text() for path in made.glob("*_pb2*")}
    committed = {path.name: path.read_text() for path in API.glob("*_pb2*")}

    assert committed == fresh, "run: python -m tests.deviceplugin.kubelet.generate_kubelet_api"


def test_the_services_have_the_kubelets_names() -> None:
    assert DEVICE_PLUGIN.full_name == "v1beta1.DevicePlugin"
    assert REGISTRATION.full_name == "v1beta1.Registration"
    assert [method.name for method in DEVICE_PLUGIN.methods] == [
        "GetDevicePluginOptions",
        "ListAndWatch",
        "GetPreferredAllocation",
        "Allocate",
        "PreStartContainer",
    ]


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        (messages.Device(ID="a", health="b"), b"\n\x01a\x12\x01b"),
        (messages.RegisterRequest(version="a", endpoint="b", resource_name="c"), b"\n\x01a\x12\x01b\x1a\x01c"),
        (messages.DevicePluginOptions(get_preferred_allocation_available=True), b"\x10\x01"),
        (
            messages.ContainerPreferredAllocationRequest(must_include_deviceIDs=["a"], allocation_size=2),
            b"\x12\x01a\x18\x02",
        ),
        (messages.ContainerAllocateResponse(cdi_devices=[messages.CDIDevice(name="a")]), b"*\x03\n\x01a"),
    ],
)
def test_numbers_on_the_wire(message: object, wire: bytes) -> None:
    assert message.SerializeToString() == wire  # type: ignore[attr-defined]
