"""The device list: which GPUs are shared at one moment, and which of them are unhealthy.

The module owns one rule: all slots of a GPU become healthy or unhealthy together.  Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from contract.sharing.inventory import Inventory


@dataclass(frozen=True, slots=True)
class DeviceList:
    """The shared GPUs of one moment, and the unhealthy ones among them."""

    inventory: Inventory = field(default_factory=Inventory)
    unhealthy: frozenset[str] = frozenset()
    """UUIDs."""

    def devices(self) -> Iterable[tuple[str, bool]]:
        """Yield every device id, and whether its GPU is healthy."""
        for shared in self.inventory.shared:
            healthy = shared.gpu.uuid not in self.unhealthy
            for device_id in shared.ids():
                yield device_id, healthy
