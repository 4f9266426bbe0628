"""The second process: NVML, the kubelet, the API and HTTP, far from the turn loop."""

from schedulerd.settings import Settings


def observe(settings: Settings) -> int:
    """The whole life of the observer."""
    raise NotImplementedError(settings)
