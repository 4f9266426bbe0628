"""What may be given out at one moment: the shared GPUs, and which of them are in trouble.

Owns the rule that all slots of a GPU flip together.  Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from contract.sharing.inventory import Inventory


@dataclass(frozen=True, slots=True)
class DeviceList:
    """One moment: which GPUs are shared, and which of them may not be given out."""

    inventory: Inventory = field(default_factory=Inventory)
    unhealthy: frozenset[str] = frozenset()
    """UUIDs."""

    def devices(self) -> Iterable[tuple[str, bool]]:
        """Every device id, and whether its GPU is healthy: all slots of a GPU flip together."""
        for shared in self.inventory.shared:
            healthy = shared.gpu.uuid not in self.unhealthy
            for device_id in shared.ids():
                yield device_id, healthy
