"""What the plugin knows just now, for every thread that asks.

Owns the newest `DeviceList` and nothing else.  Writers publish a whole one, and readers take a whole one.  A change of
the list wakes the threads that follow it.
"""

import threading

from deviceplugin.core.device_list import DeviceList


class Publisher:
    """The newest view, and a number that grows when the list of devices must be told again."""

    def __init__(self, device_list: DeviceList | None = None) -> None:
        self._changed = threading.Condition()
        self._device_list = device_list or DeviceList()
        self._edition = 1

    @property
    def device_list(self) -> DeviceList:
        return self._device_list

    def publish(self, device_list: DeviceList) -> None:
        """Puts it up; tells it where it differs from the one before."""
        with self._changed:
            if device_list != self._device_list:
                self._device_list = device_list
                self._tell()

    def announce_again(self) -> None:
        """Tells the same list once more: the kubelet writes its checkpoint at each telling."""
        with self._changed:
            self._tell()

    def _tell(self) -> None:
        self._edition += 1
        self._changed.notify_all()

    def wake(self) -> None:
        """Lets followers look whether they are still wanted."""
        with self._changed:
            self._changed.notify_all()

    def wait_for_edition(self, after: int, *, seconds: float) -> tuple[int, DeviceList]:
        """The newest view, as soon as it is newer than edition `after`, somebody wakes us, or the time is over."""
        with self._changed:
            if self._edition <= after:
                self._changed.wait(seconds)
            return self._edition, self._device_list
