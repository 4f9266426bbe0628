"""ARCHITECTURE.md is true: every folder that it names exists, and every function on its walks."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
STEPS = re.findall(r"^\d+\. `([^`]+)`: (`[^:]+`): ", TEXT, re.MULTILINE)
FOLDERS = re.findall(r"`((?:[a-z]+/)+)`", TEXT)
DEFINITIONS = {
    ".py": r"^\s*(?:(?:async )?def|class) {name}\b|^{name}\b.*=",
    ".c": r"^[\w *]*\b{name}\(",
    ".h": r"^[\w *]*\b{name}\(",
    ".table": r"^\w+ +{name} ",
}


def test_there_are_four_walks_of_some_steps_each() -> None:
    walks = re.findall(r"^### .*: .* to .*\n1\. |^### A `want`.*\n1\. ", TEXT, re.MULTILINE)

    assert len(walks) == 4
    assert len(STEPS) >= 30


@pytest.mark.parametrize(("path", "names"), STEPS)
def test_every_function_on_a_walk_stands_in_the_file_that_is_named(path: str, names: str) -> None:
    file = ROOT / path
    text = file.read_text()
    for name in re.findall(r"`([^`]+)`", names):
        assert re.search(DEFINITIONS[file.suffix].format(name=name), text, re.MULTILINE), name


@pytest.mark.parametrize("folder", sorted(set(FOLDERS)))
def test_every_folder_that_is_named_exists(folder: str) -> None:
    assert (ROOT / folder).is_dir()


def test_every_folder_of_a_room_is_named() -> None:
    rooms = ("contract", "adapters", "webhook", "deviceplugin", "schedulerd", "hook", "simgpu/src", "testbed")
    there = {f"{path.relative_to(ROOT)}/" for room in rooms for path in (ROOT / room).iterdir() if _is_code(path)}

    assert there <= set(FOLDERS)


def _is_code(path: Path) -> bool:
    return path.is_dir() and any(path.rglob("*.[cp]*")) and not path.name.startswith("_")
