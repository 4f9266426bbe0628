"""Measure how many docstrings begin with a verb: `python -m tests.system.repository.plain_words [FOLDER …]`.

The rule: a function's docstring begins with a verb in the imperative, or is left out where the name says it.  A verb
that is missing in `verbs.txt` is added; "what", "whom" and "whether" are none.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROOMS = ("contract", "adapters", "webhook", "deviceplugin", "schedulerd", "testbed", "hook", "simgpu", "tests")
VERBS = frozenset(Path(__file__).with_name("verbs.txt").read_text().split())


def docstrings(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield file, line and first word of each function's docstring below a folder."""
    for path in sorted(folder.rglob("*.py")):
        if path.name.endswith(("_pb2.py", "_pb2_grpc.py")):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            text = ast.get_docstring(node)
            if text and not any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list):
                yield path, node.lineno, text.split()[0].strip("`.,:;").lower()


def offenders(folder: Path) -> tuple[list[str], int]:
    """Return the docstrings that begin with no verb, each as `file:line word`, and how many docstrings there are."""
    found = list(docstrings(folder))
    bad = [f"{path.relative_to(ROOT)}:{line} {word}" for path, line, word in found if word not in VERBS]
    return bad, len(found)


def main(folders: list[str]) -> int:
    """Print the offenders of the folders that are named, or a line a room."""
    for name in folders or ROOMS:
        bad, count = offenders(ROOT / name)
        if folders:
            print("\n".join(bad))
        print(f"{name}: {count - len(bad)} of {count} begin with a verb")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
