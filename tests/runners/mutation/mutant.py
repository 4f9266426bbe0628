"""Mutants of one module: one change each, at an exact place of the source, the same list for the same source.

Left alone are docstrings, annotations, `__all__`, decorators, log lines, the text of f-strings.
"""

import ast
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from tests.runners.mutation.operators import OPERATORS, is_log

_SHORT = 60


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file, and the lines whose tests are to notice it."""

    path: str
    qualname: str
    operator: str
    before: str
    after: str
    lines: tuple[int, int]
    source: str
    """The whole changed file."""
    repeat: int = 1
    """Which one it is of those in this function that read the same."""

    @property
    def name(self) -> str:
        """Name the change without line numbers, as the file of reasons does."""
        again = f" #{self.repeat}" if self.repeat > 1 else ""
        return f"{self.path}:{self.qualname}: {self.operator}: {_short(self.before)} -> {_short(self.after)}{again}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 3]}..."


@dataclass(frozen=True, slots=True)
class _Place:
    """A node, and what stands around it."""

    node: ast.AST
    qualname: str
    lines: tuple[int, int]
    in_function: bool


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its syntax tree."""
    tree = ast.parse(source)
    seen, named = {source}, Counter[str]()
    found = []
    for place in _places(tree, _Place(tree, "", (1, 1), in_function=False)):
        for mutant in _changes(place, path, source):
            if mutant.source not in seen:
                seen.add(mutant.source)
                named[mutant.name] += 1
                found.append(replace(mutant, repeat=named[mutant.name]))
    return found


def choose(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return so many of them, the same for the same seed; the others stay out for every smaller count too."""
    every = list(mutants)
    random.Random(seed).shuffle(every)
    return list(islice(filter(_compiles, every), count))


def mutants_in(folder: Path, root: Path) -> list[Mutant]:
    """Return every mutant of a folder's Python files."""
    files = sorted(folder.rglob("*.py"))
    return [
        mutant for file in files for mutant in mutants_of(file.relative_to(root).as_posix(), file.read_text("utf-8"))
    ]


def _compiles(mutant: Mutant) -> bool:
    try:
        compile(mutant.source, mutant.path, "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _changes(place: _Place, path: str, source: str) -> Iterator[Mutant]:
    node = place.node
    for operator, (types, replacements) in OPERATORS.items():
        if not isinstance(node, types) or (operator == "statement deleted" and not place.in_function):
            continue
        target: Any = getattr(node, "test", node) if operator == "condition negated" else node
        for text in replacements(node):
            start, end = _span(source, target)
            changed = source.encode()[:start] + text.encode() + source.encode()[end:]
            before = source.encode()[start:end].decode()
            yield Mutant(path, place.qualname or "module", operator, before, text, place.lines, changed.decode())


def _span(source: str, node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Return where a node begins and ends, in bytes."""
    starts = _starts(source)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


@lru_cache(maxsize=1)
def _starts(source: str) -> list[int]:
    """Return where each line begins, in bytes."""
    return [0, *accumulate(len(line) for line in source.encode().splitlines(keepends=True))]


def _places(node: ast.AST, around: _Place) -> Iterator[_Place]:
    for child in _children(node):
        place = _place(child, around)
        yield place
        yield from _places(child, place)


def _place(node: ast.AST, around: _Place) -> _Place:
    lines, qualname, inside = around.lines, around.qualname, around.in_function
    if isinstance(node, ast.stmt):
        lines = _lines(node)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        qualname = f"{qualname}.{node.name}" if qualname else node.name
        inside = inside or not isinstance(node, ast.ClassDef)
    return _Place(node, qualname, lines, inside)


def _lines(node: ast.stmt) -> tuple[int, int]:
    """Return the lines that run when the statement does: of a compound one its head."""
    body = getattr(node, "body", None)
    end = node.end_lineno or node.lineno
    return (node.lineno, max(node.lineno, body[0].lineno - 1) if body else end)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Expr) and _is_left_alone(node.value)):
        return
    if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == "__all__" for one in node.targets):
        return
    skipped = {"annotation", "returns", "decorator_list", "type_comment"}
    for name, value in ast.iter_fields(node):
        if name not in skipped:
            yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, ast.AST))


def _is_left_alone(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or is_log(node)
