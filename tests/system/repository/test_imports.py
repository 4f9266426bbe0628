"""Tests, benches and drills do not import each other."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RUN_ONLY = ("test_", "bench_", "drill_", "conftest")
"""How the modules begin that pytest and the runners find by themselves."""
MODULES = sorted(path for folder in ("tests", "testbed") for path in (ROOT / folder).rglob("*.py"))


def imported_names(source: str) -> Iterator[str]:
    """Return the dotted name of everything that a module imports from tests or testbed."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def forbidden(source: str) -> list[str]:
    """Return the imports of a test, bench, drill or conftest, and those of a private name."""
    ours = [name for name in imported_names(source) if name.startswith((".", "tests.", "testbed."))]
    return [name for name in ours if any(part.startswith(("_", *RUN_ONLY)) for part in name.split("."))]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param("from tests.hook.test_life import x", ["tests.hook.test_life.x"], id="a name of a test"),
        pytest.param("from tests.hook import test_life", ["tests.hook.test_life"], id="a test"),
        pytest.param("import tests.drills.hook.drill_turns", ["tests.drills.hook.drill_turns"], id="a drill"),
        pytest.param("def f():\n  from tests.conftest import x", ["tests.conftest.x"], id="a conftest, in a function"),
        pytest.param("from .bench_hook import bench", [".bench_hook.bench"], id="a bench, by a relative name"),
        pytest.param("from testbed.cluster.cache import _x", ["testbed.cluster.cache._x"], id="a private name"),
        pytest.param("from tests.fakes.wire.client import Client", [], id="a fake"),
    ],
)
def test_forbidden_includes_are_found(source: str, found: list[str]) -> None:
    assert forbidden(source) == found


def test_nothing_imports_a_test_a_bench_a_drill_or_a_private_name() -> None:
    assert MODULES
    assert {str(path.relative_to(ROOT)): bad for path in MODULES if (bad := forbidden(path.read_text()))} == {}
