"""The Python reader and the C writer mean the same bytes: `layout.h` beside `record.py`."""

from __future__ import annotations

from pathlib import Path

from tests.simgpu import record
from tests.simgpu.machine import ROOT, compile_and_run

HEADER, PHYSICS, CORE = record._HEADER, record._PHYSICS, record._CORE

OURS = {
    "offsetof(struct sg_header, physics)": HEADER.size,
    "offsetof(struct sg_header, card)": HEADER.size + PHYSICS.size,
    "sizeof(struct sg_device_card)": record._CARD.size,
    "offsetof(struct sg_core, device)": CORE.size,
    "sizeof(struct sg_device)": record._DEVICE.size,
    "sizeof(struct sg_interval)": record._INTERVAL.size,
    "sizeof(struct sg_residency)": record._RESIDENCY.size,
    "sizeof(struct sg_cast)": record._CAST_ENTRY.size,
    "SG_MAGIC": record.MAGIC,
    "SG_VERSION": record.VERSION,
    "SG_CAST": record.CAST,
}


def test_the_reader_s_layout_is_the_writer_s(tmp_path: Path) -> None:
    prints = "\n".join(f'printf("%llu\\n", (unsigned long long)({name}));' for name in OURS)
    include = f'#include "{ROOT / "simgpu" / "src" / "shared" / "file" / "layout.h"}"\n#include <stdio.h>\n'
    source = include + "int main(void) {\n" + prints + "\nreturn 0; }"

    theirs = compile_and_run(source, tmp_path).split()

    assert dict(zip(OURS, map(int, theirs), strict=True)) == OURS
