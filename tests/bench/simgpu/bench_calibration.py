"""The calibration table of `tests.simgpu.calibration` as rows: how far each ratio is from the published one."""

from __future__ import annotations

from collections.abc import Iterator

from tests.runners.bench import Row
from tests.simgpu.calibration import WITHIN, cells, constant


def bench() -> Iterator[Row]:
    for cell in cells():
        yield Row(
            what=f"{cell.workload}, {cell.mode.value}: distance from the thesis",
            value=100 * abs(cell.off),
            unit="%",
            limit=100 * WITHIN,
            against=f"ratio to serial {cell.ours:.3f}, published {cell.published:.3f}",
            note=f"(simulated at {constant('speed'):g}x)",
        )
