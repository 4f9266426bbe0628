"""The status as tables: text for people, JSON for programs, shares over time for `top`.

Pure functions of the status' lines.
"""

from collections.abc import Iterable, Mapping, Sequence

from contract.line import Line

Words = Mapping[str, str]
_TEXT_WORDS = frozenset(
    {"key", "gpu", "uuid", "epoch", "policy", "namespace", "pod", "container", "mode", "state", "paused", "refusals"}
)
_STATES = {"holds": 0, "yields": 1, "waits": 2, "rests": 3}


def _of(lines: Iterable[Line], verb: str) -> list[Words]:
    return [line.words for line in lines if line.verb == verb]


def as_json(lines: Sequence[Line]) -> dict[str, object]:
    """The status for programs: numbers are numbers."""
    daemon = _of(lines, "daemon")
    return {
        "daemon": _typed(daemon[0]) if daemon else {},
        "gpus": [_typed(words) for words in _of(lines, "gpu")],
        "containers": [
            {**_typed(words), "gpus": [_typed(place) for place in _of(lines, "place") if place["key"] == words["key"]]}
            for words in _of(lines, "container")
        ],
    }


def _typed(words: Words) -> dict[str, object]:
    return {key: _value(key, text) for key, text in words.items()}


def _value(key: str, text: str) -> object:
    if key in _TEXT_WORDS:
        return text
    if key in ("waits", "pids", "loop"):
        return [int(part) for part in text.split(",")]
    return float(text) if any(mark in text for mark in ".e") else int(text)


def held(lines: Iterable[Line]) -> dict[tuple[str, str], int]:
    """Microseconds that each container has held each GPU."""
    return {(place["key"], place["gpu"]): int(place["held_us"]) for place in _of(lines, "place")}


def as_text(lines: Sequence[Line]) -> str:
    """The status for people."""
    return _page(lines, ("HELD", "WAITED", "TURNS", "OVERDUE"), _totals)


def as_top(lines: Sequence[Line], before: Mapping[tuple[str, str], int], *, seconds: float) -> str:
    """The status for people, with each container's share of the time since the last look."""

    def shares(place: Words) -> tuple[str, ...]:
        was = before.get((place["key"], place["gpu"]))
        share = "-" if was is None else f"{(int(place['held_us']) - was) / 1e4 / max(seconds, 1e-3):.0f}%"
        return (share, *_totals(place))

    return _page(lines, ("SHARE", "HELD", "WAITED", "TURNS", "OVERDUE"), shares)


def _totals(place: Words) -> tuple[str, ...]:
    return (
        _duration(int(place["held_us"]) / 1e6),
        _duration(int(place["waited_us"]) / 1e6),
        place["turns"],
        place["overdue"],
    )


def _page(lines: Sequence[Line], columns: tuple[str, ...], figures: object) -> str:
    assert callable(figures)
    daemon = (_of(lines, "daemon") or [{}])[0]
    names = {words["key"]: _name(words) for words in _of(lines, "container")}
    places = sorted(_of(lines, "place"), key=lambda place: (place["gpu"], _STATES[place["state"]], names[place["key"]]))
    rows = [
        (place["gpu"], names[place["key"]], _state(place), *figures(place), _size(place.get("pageable")))
        for place in places
    ]
    head = (
        f"policy {daemon.get('policy', '-')}, quantum {_quantum(daemon)}, {daemon.get('containers', '0')} containers,"
        f" {daemon.get('processes', '0')} processes, {daemon.get('jams', '0')} jams"
    )
    gpus = _table(
        ("GPU", "BUSY", "HOLDERS", "WAITING", "MEMORY", "TEMP", "POWER", "STATE"), map(_gpu_row, _of(lines, "gpu"))
    )
    return "\n".join((head, "", gpus, "", _table(("GPU", "CONTAINER", "STATE", *columns, "MEMORY"), rows)))


def _gpu_row(words: Words) -> tuple[str, ...]:
    memory = f"{_size(words.get('memory_used'))}/{_size(words.get('memory_total'))}" if "memory_total" in words else "-"
    state = words.get("paused") or ("drained" if words.get("drained") == "1" else "ok")
    return (
        words["uuid"],
        f"{float(words['busy']) * 100:.0f}%",
        words["holders"],
        words["waiting"],
        memory,
        f"{words['temperature']}C" if "temperature" in words else "-",
        f"{float(words['power']):.0f}W" if "power" in words else "-",
        state,
    )


def _name(words: Words) -> str:
    if "pod" in words:
        return f"{words.get('namespace', '')}/{words['pod']}/{words.get('container', '')}"
    return words["key"]


def _state(place: Words) -> str:
    return f"{place['state']} {_duration(int(place['since_ms']) / 1000)}" if "since_ms" in place else place["state"]


def _quantum(daemon: Words) -> str:
    return _duration(int(daemon["quantum_ms"]) / 1000) if "quantum_ms" in daemon else "adapts"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 120 else f"{seconds / 60:.1f}min"


def _size(text: str | None) -> str:
    if text is None:
        return "-"
    size = float(text)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f}{unit}"
        size /= 1024
    return f"{size:.1f}GiB"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    every = [head, *rows]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in every
    )
