"""Others that write CDI specs all the time, beside ours: eighty small specs, and fifty renames a second."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PER_SECOND = 50
_SPECS = 80


def _spec(number: int, turn: int) -> str:
    devices = [{"name": "one", "containerEdits": {"env": [f"NOISE={turn}"]}}]
    return json.dumps({"cdiVersion": "0.5.0", "kind": f"noise{number}.example.com/device", "devices": devices})


def _write(folder: Path, number: int, turn: int) -> None:
    partial = folder / f".noise{number}.partial"
    partial.write_text(_spec(number, turn))
    partial.rename(folder / f"noise{number}.json")


@contextmanager
def noise(folder: Path, *, per_second: int = PER_SECOND) -> Iterator[None]:
    """Write into the folder as long as the block runs; take the specs away at its end."""
    over = threading.Event()

    def go_on() -> None:
        turn = 0
        while not over.wait(1 / per_second):
            turn += 1
            _write(folder, turn % _SPECS, turn)

    for number in range(_SPECS):
        _write(folder, number, 0)
    writer = threading.Thread(target=go_on, name="cdi-noise")
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join()
        for path in folder.glob("*noise*"):
            path.unlink()
