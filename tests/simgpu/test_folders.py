"""The folders of `simgpu/src` are its layers.  The table says which folder may include which.

An include between folders names the path from `src/`; within a folder it names the file alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.fakes.gpu_machine import ROOT

SOURCE = ROOT / "simgpu" / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
DECLARED = re.compile(r"^(?!static |typedef |struct \w+ \{|[ #/*])[^\n(]*?\b((?:sg|nv)_\w+)\(", re.M)
MOST_FILES = 12

SHARED = ("shared/file", "shared/devices", "shared/process")
BELOW_CALLS = (*SHARED, "driver/abi", "driver/base", "driver/allocations", "driver/graphs", "driver/work")

MAY_INCLUDE: dict[str, tuple[str, ...]] = {
    # what all processes share: the file, the devices in it, this process' part; each stands on the one before
    "shared/file": (),
    "shared/devices": SHARED[:1],
    "shared/process": SHARED[:2],
    # the driver stands on it, layer by layer: what a call is, what it works on, what it does
    "driver/abi": (),
    "driver/base": (*SHARED, "driver/abi"),
    "driver/allocations": (*SHARED, "driver/abi", "driver/base"),
    "driver/graphs": (*SHARED, "driver/abi", "driver/base"),
    "driver/work": BELOW_CALLS[:-1],
    # the entry points, a folder a family, stand on all of it; a family stands on another only where it says so
    "driver/calls": BELOW_CALLS,
    "driver/calls/contexts": BELOW_CALLS,
    "driver/calls/modules": BELOW_CALLS,
    "driver/calls/memory": (*BELOW_CALLS, "driver/calls/contexts"),
    "driver/calls/streams": (*BELOW_CALLS, "driver/calls/modules"),
    "driver/calls/graphs": (*BELOW_CALLS, "driver/calls/modules"),
    # NVML and the tools know the shared file and nothing of the driver
    "nvml": SHARED,
    "tools": SHARED,
}


def files() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*")) if path.is_file()]


def folder_of(path: Path) -> str:
    return path.parent.relative_to(SOURCE).as_posix()


def includes() -> Iterator[tuple[Path, Path]]:
    for path in files():
        for name in INCLUDE.findall(path.read_text()):
            yield path, (SOURCE / name if "/" in name else path.parent / name)


def defines(path: Path, function: str) -> bool:
    return re.search(rf"^\w[^\n;]*\b{function}\([^;{{]*\) \{{", path.read_text(), re.M) is not None


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the nodes that reach themselves."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(graph.get(start, ()))
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += graph.get(node, ())
        return seen

    return sorted(node for node in graph if node in reached(node))


def test_every_include_names_a_file_that_exists() -> None:
    assert [(str(path), str(target)) for path, target in includes() if not target.is_file()] == []


def test_every_folder_stands_in_the_table() -> None:
    assert {folder_of(path) for path in files()} == set(MAY_INCLUDE)


def test_a_folder_includes_only_what_the_table_allows() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)} includes {target.relative_to(SOURCE)}"
        for path, target in includes()
        if folder_of(target) not in (folder_of(path), *MAY_INCLUDE[folder_of(path)])
    ]

    assert wrong == []


def test_the_table_allows_no_cycle() -> None:
    assert cycle({folder: set(below) for folder, below in MAY_INCLUDE.items()}) == []


def test_no_header_and_the_files_of_its_name_stand_in_a_cycle() -> None:
    graph: dict[str, set[str]] = defaultdict(set)
    for path, target in includes():
        graph[path.stem] |= {target.stem} - {path.stem}

    assert cycle(graph) == []


def test_a_header_is_implemented_by_the_files_that_its_name_leads_to() -> None:
    elsewhere = [
        f"{header.relative_to(SOURCE)}: {name}"
        for header in SOURCE.rglob("*.h")
        for name in DECLARED.findall(header.read_text())
        if not any(defines(path, name) for path in header.parent.glob(f"{header.stem}*.c"))
    ]

    assert elsewhere == []


def test_a_name_stands_once() -> None:
    places: dict[str, set[Path]] = defaultdict(set)
    for path in files():
        places[path.stem].add(path.parent)

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_folder_holds_more_than_a_dozen_files() -> None:
    counts = {folder: sum(folder_of(path) == folder for path in files()) for folder in MAY_INCLUDE}

    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}
