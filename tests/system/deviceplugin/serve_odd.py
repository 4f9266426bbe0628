"""`python -m tests.system.deviceplugin.serve_odd shuffled|without-preference serve …`: the real plugin, odd on purpose.

`shuffled` tells the slots in random order; `without-preference` does not offer GetPreferredAllocation, so that a test
of the spread can be seen to fail.
"""

import random
import sys
from collections.abc import Iterable

from deviceplugin.__main__ import main
from deviceplugin.core.device_list import View
from deviceplugin.kubelet import calls
from deviceplugin.kubelet_api import messages


def shuffle_devices() -> None:
    in_order = View.devices

    def shuffled(view: View) -> Iterable[tuple[str, bool]]:
        devices = list(in_order(view))
        random.shuffle(devices)
        return devices

    View.devices = shuffled  # type: ignore[method-assign]


def withdraw_preference() -> None:
    calls.OPTIONS = messages.DevicePluginOptions(pre_start_required=True)


ODDITIES = {"shuffled": shuffle_devices, "without-preference": withdraw_preference}

if __name__ == "__main__":
    ODDITIES[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
