"""The grammar of a physical GPU's UUID, or a MIG instance's: written once, for device ids and the wire alike."""

import re

FORM = re.compile(r"(GPU|MIG)-[0-9A-Za-z]+(-[0-9A-Za-z]+)*", re.ASCII)
LONGEST = 58
"""A device id has 63 characters at most, and its separator and an ordinal of up to three digits need five."""


def is_gpu_uuid(text: str) -> bool:
    """Return whether the text names a GPU as NVIDIA's driver does, as in `GPU-1b2c-…`."""
    return len(text) <= LONGEST and FORM.fullmatch(text) is not None
