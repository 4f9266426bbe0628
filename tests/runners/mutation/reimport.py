"""Try a mutant that changes what runs at import: a forked process without our modules imports the mutant's source."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.runners.mutation.mutant import Mutant


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads the mutant's source as if it stood in the file."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, _fullname: str) -> CodeType:
        code: CodeType = compile(self._source, self.path, "exec")
        return code


@dataclass(frozen=True, slots=True)
class Finder(importlib.abc.MetaPathFinder):
    """Finds one module: the mutant's."""

    module: str
    path: Path
    source: str

    def find_spec(self, name: str, _path: object = None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self.module:
            return None
        loader = _Loader(name, str(self.path), self.source)
        places = [str(self.path.parent)] if self.path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, self.path, loader=loader, submodule_search_locations=places)


@dataclass(frozen=True, slots=True)
class _Selected:
    """A pytest plugin: runs these tests alone, in this order."""

    tests: Sequence[str]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        place = {test: index for index, test in enumerate(self.tests)}
        items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])


def passes(mutant: Mutant, root: Path, tests: Sequence[str], options: Sequence[str]) -> bool:
    """Import the mutant in its module's place, and run the tests."""
    path = Path(mutant.path)
    parts = path.parent.parts if path.name == "__init__.py" else (*path.parent.parts, path.stem)
    sys.meta_path.insert(0, Finder(".".join(parts), root / path, mutant.source))
    files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    return not tests or pytest.main([*options, "-x", *files], plugins=[_Selected(tests)]) == pytest.ExitCode.OK
