"""The hook with one line deleted: the look-ups ask the driver and swap nothing.  A test must find it out."""

import shutil
import subprocess
from pathlib import Path

from tests.hook.support.machine import ROOT

LINES = {
    "cuGetProcAddress": ("    *answer = entry->wrapper;\n", ""),
    "dlsym": (
        "    return theirs == entry->wrapper || theirs == known(entry) ? entry->wrapper : theirs;\n",
        "    return theirs;\n",
    ),
}
"""The line of hook/driver/lookup.c that swaps, and what stands there instead."""


def build_without(look_up: str, folder: Path) -> Path:
    """Build the hook from a copy in which this look-up gives back what the driver answered."""
    copy, out = folder / "hook", folder / "build"
    shutil.copytree(ROOT / "hook", copy)
    source = copy / "driver" / "lookup.c"
    text, (line, instead) = source.read_text(), LINES[look_up]
    assert text.count(line) == 1, f"hook/driver/lookup.c has changed: name its line that swaps for {look_up} here"
    source.write_text(text.replace(line, instead))
    subprocess.run(["make", "-s", "-C", copy, f"OUT={out}", "CFLAGS=-O1", "EXTRA=-Wno-unused"], check=True)
    return out / "libnvshare.so"
