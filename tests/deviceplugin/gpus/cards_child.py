"""The NVML shell in a process of its own, driven over stdin, since LD_LIBRARY_PATH is read at a process's start.

`rescan`, `check UUID` and `xid SECONDS` are each answered with a line of JSON.
"""

import json
import sys
from dataclasses import asdict
from typing import Any

from deviceplugin.errors import DevicePluginError
from deviceplugin.gpus.cards import Nvml


def answer(nvml: Nvml, verb: str, *words: str) -> Any:
    if verb == "rescan":
        return [asdict(gpu) for gpu in nvml.rescan()]
    if verb == "check":
        return nvml.check(words[0])
    xid = nvml.wait_for_xid(float(words[0]))
    return None if xid is None else [xid.uuid, xid.number]


def main() -> None:
    nvml = Nvml()
    for line in sys.stdin:
        try:
            said = answer(nvml, *line.split())
        except DevicePluginError as error:
            said = f"{type(error).__name__}: {error}"
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
    nvml.close()


if __name__ == "__main__":
    main()
