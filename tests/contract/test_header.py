"""The hook's header repeats the contract's words, and says nothing that the contract does not."""

import importlib
import re
from pathlib import Path

import pytest

import contract

HEADER = Path(__file__).parents[2] / "hook" / "nvshare_contract.h"
FOLDER = Path(contract.__file__).parent
MODULES = {path.stem: ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts) for path in FOLDER.rglob("*.py")}
PREFIXES = {**MODULES, "wire": MODULES["numbers"]}
"""By the beginning of a macro's name, in small letters: the module."""
DEFINES = re.findall(r"^#define NVSHARE_(\w+) (.+)$", HEADER.read_text(), re.MULTILINE)


def _value_in_python(macro: str) -> object:
    prefix = max((name for name in PREFIXES if macro.startswith(name.upper() + "_")), key=len)
    return getattr(importlib.import_module(PREFIXES[prefix]), macro[len(prefix) + 1 :])


@pytest.mark.parametrize(("macro", "value"), DEFINES, ids=[macro for macro, _ in DEFINES])
def test_a_word_of_the_header_equals_the_contracts(macro: str, value: str) -> None:
    ours = _value_in_python(macro)
    ours = ours.decode() if isinstance(ours, bytes) else ours

    assert value == (f'"{ours}"' if isinstance(ours, str) else str(ours))


def test_the_header_is_not_empty() -> None:
    assert len(DEFINES) >= 15
