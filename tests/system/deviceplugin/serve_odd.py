"""`python -m tests.system.deviceplugin.serve_odd shuffled|without-preference serve …`: the real plugin, odd on purpose.

`shuffled` tells the slots in random order; `without-preference` does not offer GetPreferredAllocation, so that a test
of the spread can be seen to fail.
"""

import random
import sys
from collections.abc import Iterable

from adapters.kubelet.device_plugin_api import messages
from deviceplugin.__main__ import main
from deviceplugin.core.device_list import DeviceList
from deviceplugin.kubelet import calls


def shuffle_devices() -> None:
    in_order = DeviceList.devices

    def shuffled(device_list: DeviceList) -> Iterable[tuple[str, bool]]:
        devices = list(in_order(device_list))
        random.shuffle(devices)
        return devices

    DeviceList.devices = shuffled  # type: ignore[method-assign, assignment]


def withdraw_preference() -> None:
    calls.OPTIONS = messages.DevicePluginOptions(pre_start_required=True)


ODDITIES = {"shuffled": shuffle_devices, "without-preference": withdraw_preference}

if __name__ == "__main__":
    ODDITIES[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
