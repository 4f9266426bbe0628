"""The kubelet's two gRPC interfaces, as Python.

The `.proto` files are written down from the kubelet's published API; everything named `*_pb2*` is generated from them
(`python -m tests.deviceplugin.kubelet.generate_kubelet_api`) and committed, and a test says when it is stale.
"""

from deviceplugin.kubelet_api import deviceplugin_v1beta1_pb2 as messages
from deviceplugin.kubelet_api import podresources_v1_pb2 as podresources

DEVICE_PLUGIN = messages.DESCRIPTOR.services_by_name["DevicePlugin"]
REGISTRATION = messages.DESCRIPTOR.services_by_name["Registration"]
VERSION = "v1beta1"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"

__all__ = ["DEVICE_PLUGIN", "HEALTHY", "REGISTRATION", "UNHEALTHY", "VERSION", "messages", "podresources"]
