"""The newest device list, for every thread that asks.

The module owns nothing but the newest `DeviceList`.  A writer publishes a complete one and a reader takes a complete
one.  A stream that follows the list is woken when it changes.
"""

import threading

from deviceplugin.core.device_list import DeviceList


class Publisher:
    """The newest device list, and an edition number that grows when the kubelet must be told again."""

    def __init__(self, device_list: DeviceList | None = None) -> None:
        self._changed = threading.Condition()
        self._device_list = device_list or DeviceList()
        self._edition = 1

    @property
    def device_list(self) -> DeviceList:
        return self._device_list

    def publish(self, device_list: DeviceList) -> None:
        """Replace the device list; wake the streams where it differs from the one before."""
        with self._changed:
            if device_list != self._device_list:
                self._device_list = device_list
                self._tell()

    def announce_again(self) -> None:
        """Send the same list once more, because the kubelet writes its checkpoint after each list."""
        with self._changed:
            self._tell()

    def _tell(self) -> None:
        self._edition += 1
        self._changed.notify_all()

    def wake(self) -> None:
        """Wake the streams, so that they notice when they should end."""
        with self._changed:
            self._changed.notify_all()

    def wait_for_edition(self, after: int, *, seconds: float) -> tuple[int, DeviceList]:
        """Return the newest list as soon as it is newer than edition `after`, or after `seconds` or a wake."""
        with self._changed:
            if self._edition <= after:
                self._changed.wait(seconds)
            return self._edition, self._device_list
