"""The grammar of a GPU's UUID, or a MIG instance's: one for device ids and the wire.

The grammar allows `MIG-…` because NVML and other plugins name instances, and a reader must not fail on their names.
nvshare-guard gives no slots of them: `deviceplugin/core/inventory.py` refuses MIG cards and says why.
"""

import re

FORM = re.compile(r"(GPU|MIG)-[0-9A-Za-z]+(-[0-9A-Za-z]+)*", re.ASCII)
LONGEST = 58
"""A device id has 63 characters at most, and its separator and an ordinal of up to three digits need five."""


def is_gpu_uuid(text: str) -> bool:
    """Return whether the text names a GPU as NVIDIA's driver does, as in `GPU-1b2c-…`."""
    return len(text) <= LONGEST and FORM.fullmatch(text) is not None
