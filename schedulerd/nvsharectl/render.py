"""The status as text for people, as JSON for programs, and as shares over time for `top`.

Pure functions of the status.
"""

from collections.abc import Callable, Iterable, Mapping

from contract.wire.status import ContainerStatus, DaemonStatus, Entry, GpuStatus, PlaceStatus, State, Status

_ORDER = {state: place for place, state in enumerate((State.HOLDS, State.YIELDS, State.WAITS, State.RESTS))}
Held = Mapping[tuple[str, str], int]
"""Microseconds that each container has held each GPU."""


def as_json(status: Status) -> dict[str, object]:
    """Return the status for programs; what is unknown is left out."""
    return {
        "daemon": _known(status.daemon) if status.daemon else {},
        "gpus": [_known(gpu) for gpu in status.gpus],
        "containers": [
            {**_known(container), "gpus": [_known(place) for place in status.places if place.key == container.key]}
            for container in status.containers
        ],
    }


def _known(entry: Entry) -> dict[str, object]:
    return {name: value for name, value in entry._asdict().items() if value is not None and value not in ("", (), {})}


def list_held(status: Status) -> Held:
    """Return how long each container has held each GPU."""
    return {(place.key, place.gpu): place.held_us for place in status.places}


def as_text(status: Status) -> str:
    """Return the status for people."""
    return _page(status, ("HELD", "WAITED", "TURNS", "OVERDUE"), _totals)


def as_top(status: Status, before: Held, *, seconds: float) -> str:
    """Return the status for people, with each container's share of the time since the last look."""

    def shares(place: PlaceStatus) -> tuple[str, ...]:
        was = before.get((place.key, place.gpu))
        share = "-" if was is None else f"{(place.held_us - was) / 1e4 / max(seconds, 1e-3):.0f}%"
        return (share, *_totals(place))

    return _page(status, ("SHARE", "HELD", "WAITED", "TURNS", "OVERDUE"), shares)


def _totals(place: PlaceStatus) -> tuple[str, ...]:
    return _duration(place.held_us / 1e6), _duration(place.waited_us / 1e6), str(place.turns), str(place.overdue)


def _page(status: Status, columns: tuple[str, ...], figures: Callable[[PlaceStatus], tuple[str, ...]]) -> str:
    names = {container.key: _name(container) for container in status.containers}
    places = sorted(status.places, key=lambda place: (place.gpu, _ORDER[place.state], names[place.key]))
    rows = [(place.gpu, names[place.key], _state(place), *figures(place), _size(place.pageable)) for place in places]
    daemon = status.daemon or DaemonStatus()
    head = (
        f"policy {daemon.policy or '-'}, quantum {_quantum(daemon)}, {daemon.containers} containers,"
        f" {daemon.processes} processes, {daemon.jams} jams"
    )
    gpus = _table(("GPU", "BUSY", "HOLDERS", "WAITING", "MEMORY", "TEMP", "POWER", "STATE"), map(_gpu_row, status.gpus))
    return "\n".join((head, "", gpus, "", _table(("GPU", "CONTAINER", "STATE", *columns, "MEMORY"), rows)))


def _gpu_row(gpu: GpuStatus) -> tuple[str, ...]:
    return (
        gpu.uuid,
        f"{gpu.busy * 100:.0f}%",
        str(gpu.holders),
        str(gpu.waiting),
        "-" if gpu.memory_total is None else f"{_size(gpu.memory_used)}/{_size(gpu.memory_total)}",
        "-" if gpu.temperature is None else f"{gpu.temperature}C",
        "-" if gpu.power is None else f"{gpu.power:.0f}W",
        gpu.paused or ("drained" if gpu.drained else "ok"),
    )


def _name(container: ContainerStatus) -> str:
    if container.pod:
        return f"{container.namespace}/{container.pod}/{container.container}"
    return container.key


def _state(place: PlaceStatus) -> str:
    return place.state if place.since_ms is None else f"{place.state} {_duration(place.since_ms / 1000)}"


def _quantum(daemon: DaemonStatus) -> str:
    return "adapts" if daemon.quantum_ms is None else _duration(daemon.quantum_ms / 1000)


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 120 else f"{seconds / 60:.1f}min"


def _size(size: float | None) -> str:
    if size is None:
        return "-"
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
