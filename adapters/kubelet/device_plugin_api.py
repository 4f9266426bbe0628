"""The kubelet's device-plugin API, version v1beta1: its messages, services and fixed words."""

from adapters.kubelet.generated import deviceplugin_v1beta1_pb2 as messages

DEVICE_PLUGIN = messages.DESCRIPTOR.services_by_name["DevicePlugin"]
REGISTRATION = messages.DESCRIPTOR.services_by_name["Registration"]
VERSION = "v1beta1"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"

__all__ = ["DEVICE_PLUGIN", "HEALTHY", "REGISTRATION", "UNHEALTHY", "VERSION", "messages"]
