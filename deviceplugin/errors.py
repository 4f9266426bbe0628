"""The errors of the device plugin.

Each error says what is wrong and how to fix it, since its text reaches operators and pods unchanged.  A refusal carries
the reason code, which is also its label in metrics.
"""

from contract.words.reasons import ReasonCode, Refusal


class DevicePluginError(Exception):
    """Base of the family: something that the device plugin will not or cannot do."""


class BadSetting(DevicePluginError):
    """A flag or variable with a value outside its grammar."""


class NvmlUnavailable(DevicePluginError):
    """NVML cannot be loaded, or does not answer."""


class NotWell(DevicePluginError):
    """The plugin answers a probe that it is not well, or does not answer."""


class GpuGone(DevicePluginError):
    """NVML says that this GPU no longer answers."""


class NodeNotReady(DevicePluginError):
    """A part that must be on the node is missing and cannot be written there."""


class BadSpec(DevicePluginError):
    """A CDI spec that a container runtime would refuse."""


class NoDevices(DevicePluginError):
    """This node's CDI specs do not give a GPU its devices; its containers wait."""


class Refused(DevicePluginError):
    """A call of the kubelet is refused with a reason."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


UNKNOWN_DEVICE = ReasonCode("UnknownDevice")
SAME_GPU = ReasonCode("SameGpu")
TOO_MANY = ReasonCode("TooManyForContainer")
NOTHING_ASKED = ReasonCode("NothingAsked")
NODE_NOT_READY = ReasonCode("NodeNotReady")
NO_DEVICES = ReasonCode("NoGpuDevices")
ALLOCATION_FAILED = ReasonCode("AllocationFailed")
REFUSALS = (UNKNOWN_DEVICE, SAME_GPU, TOO_MANY, NOTHING_ASKED, NODE_NOT_READY, NO_DEVICES, ALLOCATION_FAILED)
"""Every code that Allocate or PreStartContainer may give, in the order of their checks."""
