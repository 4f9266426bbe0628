"""`python -m tests.system.deviceplugin.serve_odd ODDITY serve …`: the real plugin, odd on purpose.

`shuffled` tells the slots in random order.  `without-preference` does not offer GetPreferredAllocation, so that a test
of the spread can be seen to fail.  `dying` kills itself in PreStartContainer where a file says so.  Where another file
says so, it leaves an old CDI spec in its place, as a runtime sees it that has not read the new one.
"""

import os
import random
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from adapters.kubelet.device_plugin_api import messages
from deviceplugin.__main__ import main
from deviceplugin.core.binding import Wait
from deviceplugin.core.device_list import DeviceList
from deviceplugin.kubelet import calls
from deviceplugin.node import handshake


def shuffle_devices() -> None:
    in_order = DeviceList.devices

    def shuffled(device_list: DeviceList) -> Iterable[tuple[str, bool]]:
        devices = list(in_order(device_list))
        random.shuffle(devices)
        return devices

    DeviceList.devices = shuffled  # type: ignore[method-assign, assignment]


def withdraw_preference() -> None:
    calls.OPTIONS = messages.DevicePluginOptions(pre_start_required=True)


def die_at_start() -> None:
    shuffle_devices()
    check = calls.DevicePlugin.check_start

    def die_or_check(plugin: calls.DevicePlugin, request: Any, context: Any) -> Any:
        if DIE_AT_START.exists():
            DIE_AT_START.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return check(plugin, request, context)

    put = handshake.put_spec

    def keep_or_put(path: Path, text: str, wait: Wait) -> float:
        return 0.0 if wait is Wait.SETTLED and KEEP_OLD_SPECS.exists() else put(path, text, wait)

    handshake.put_spec = keep_or_put
    calls.DevicePlugin.check_start = die_or_check  # type: ignore[method-assign, assignment]


DIE_AT_START, KEEP_OLD_SPECS = Path("/run/die-at-start"), Path("/run/keep-old-specs")
ODDITIES = {"shuffled": shuffle_devices, "without-preference": withdraw_preference, "dying": die_at_start}

if __name__ == "__main__":
    ODDITIES[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
