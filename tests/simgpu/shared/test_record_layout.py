"""The Python reader and the C writer mean the same bytes: `layout.h` beside `record.py`."""

from __future__ import annotations

from pathlib import Path

from testbed import gpu_record
from tests.fakes.gpu_machine import ROOT, compile_and_run

HEADER, PHYSICS, CORE = gpu_record._HEADER, gpu_record._PHYSICS, gpu_record._CORE

OURS = {
    "offsetof(struct sg_header, physics)": HEADER.size,
    "offsetof(struct sg_header, card)": HEADER.size + PHYSICS.size,
    "sizeof(struct sg_device_card)": gpu_record._CARD.size,
    "offsetof(struct sg_core, device)": CORE.size,
    "sizeof(struct sg_device)": gpu_record._DEVICE.size,
    "sizeof(struct sg_interval)": gpu_record._INTERVAL.size,
    "sizeof(struct sg_residency)": gpu_record._RESIDENCY.size,
    "sizeof(struct sg_cast)": gpu_record._CAST_ENTRY.size,
    "SG_MAGIC": gpu_record.MAGIC,
    "SG_VERSION": gpu_record.VERSION,
    "SG_CAST": gpu_record.CAST,
}


def test_the_reader_s_layout_is_the_writer_s(tmp_path: Path) -> None:
    prints = "\n".join(f'printf("%llu\\n", (unsigned long long)({name}));' for name in OURS)
    include = f'#include "{ROOT / "simgpu" / "src" / "shared" / "file" / "layout.h"}"\n#include <stdio.h>\n'
    source = include + "int main(void) {\n" + prints + "\nreturn 0; }"

    theirs = compile_and_run(source, tmp_path).split()

    assert dict(zip(OURS, map(int, theirs), strict=True)) == OURS
