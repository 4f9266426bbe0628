"""The room's exception family.

Each error says what is wrong and how to fix it, since its text reaches operators and pods unchanged; a refusal carries
the reason code that is also its metric's label.
"""

from contract.reasons import ReasonCode, Refusal


class DevicePluginError(Exception):
    """Base: something the device plugin will not or cannot do."""


class BadSetting(DevicePluginError):
    """A flag or variable with a value outside its grammar."""


class NvmlUnavailable(DevicePluginError):
    """NVML cannot be loaded, or does not answer."""


class NotWell(DevicePluginError):
    """The plugin that a probe asks says that it is not well, or does not answer."""


class GpuGone(DevicePluginError):
    """NVML says that this GPU does not answer any more."""


class NodeNotReady(DevicePluginError):
    """A part that must lie on the node is not there and cannot be put there."""


class BadSpec(DevicePluginError):
    """A CDI spec that a container runtime would refuse."""


class Refused(DevicePluginError):
    """A request of the kubelet's that is answered with a reason."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


UNKNOWN_DEVICE = ReasonCode("UnknownDevice")
SAME_GPU = ReasonCode("SameGpu")
TOO_MANY = ReasonCode("TooManyForContainer")
NOTHING_ASKED = ReasonCode("NothingAsked")
NODE_NOT_READY = ReasonCode("NodeNotReady")
ALLOCATION_FAILED = ReasonCode("AllocationFailed")
REFUSALS = (UNKNOWN_DEVICE, SAME_GPU, TOO_MANY, NOTHING_ASKED, NODE_NOT_READY, ALLOCATION_FAILED)
"""Every code that Allocate or PreStartContainer may give, in the order of their checks."""
