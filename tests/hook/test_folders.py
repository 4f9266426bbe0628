"""The hook's folders are its architecture: which folder may include which, and where a header's functions stand."""

import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[2] / "hook"
MOST_FILES = 12
MAY_INCLUDE: dict[str, set[str]] = {
    "process": set(),
    "driver": {"process"},
    "daemon": {"process"},
    "gate": {"process", "driver"},
    "memory": {"process", "driver"},
    "flight": {"process", "driver", "gate"},
    "turns": {"process", "driver", "daemon", "gate", "memory", "flight"},
    "wrappers": {"process", "driver", "gate", "memory", "flight", "turns"},
    "": {"process", "driver", "daemon", "gate", "memory", "flight", "turns"},
}
"""Folder to the folders it may include; "" is hook/ itself, whose nvshare_contract.h everybody may include."""

FILES = sorted(HOOK.rglob("*.[ch]"))
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
PROTOTYPE = re.compile(
    r"^(?!static|INLINE|typedef)\w[\w *]*[ *](\w+)\([^;{}]*\)(?: __attribute__\(.*\))?;", re.MULTILINE
)


def _folder(path: Path) -> str:
    return "" if path.parent == HOOK else path.parent.name


def _includes(path: Path) -> Iterator[Path]:
    """Yield the hook's own headers that a file includes; driver/driver.h is written by generate.py."""
    for name in INCLUDE.findall(path.read_text()):
        assert (HOOK / name).is_file() or name == "driver/driver.h", f"{path.name} includes {name}: name its folder"
        yield HOOK / name


def _edges() -> set[tuple[str, str]]:
    pairs = {(_folder(path), _folder(header)) for path in FILES for header in _includes(path)}
    return {(here, there) for here, there in pairs if there not in ("", here)}


def _unit(path: Path) -> str:
    """Return the header that a file implements: the shortest name of the folder that begins the file's, up to a `_`."""
    stems = sorted((header.stem for header in path.parent.glob("*.h")), key=len)
    own = next((stem for stem in stems if path.stem == stem or path.stem.startswith(f"{stem}_")), path.stem)
    return f"{_folder(path)}/{own}"


def test_a_folder_includes_only_what_the_table_allows() -> None:
    allowed = {(here, there) for here, folders in MAY_INCLUDE.items() for there in folders}

    assert _edges() - allowed == set()
    assert allowed - _edges() == set(), "allowed, and not used: take it out of the table"


def test_the_table_has_every_folder_and_no_cycle() -> None:
    assert {_folder(path) for path in FILES} == set(MAY_INCLUDE)
    TopologicalSorter(MAY_INCLUDE).prepare()


def test_no_header_and_its_files_include_each_other_in_a_circle() -> None:
    units: dict[str, set[str]] = {_unit(path): set() for path in FILES}
    for path in FILES:
        units[_unit(path)] |= {_unit(header) for header in _includes(path)} - {_unit(path)}

    TopologicalSorter(units).prepare()


@pytest.mark.parametrize("header", [path for path in FILES if path.suffix == ".h"], ids=lambda path: path.name)
def test_a_header_s_functions_stand_in_the_files_its_name_leads_to(header: Path) -> None:
    files = [path for path in header.parent.glob("*.c") if path.stem == header.stem or _unit(path) == _unit(header)]
    text = "\n".join(path.read_text() for path in files)
    declared = set(PROTOTYPE.findall(re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)))

    assert not [name for name in declared if not re.search(rf"^\w[\w *]*\b{name}\([^;]*?\) {{", text, re.MULTILINE)]


def test_a_folder_has_at_most_twelve_files() -> None:
    for folder in MAY_INCLUDE:
        assert len([path for path in (HOOK / folder).iterdir() if path.is_file()]) <= MOST_FILES
