"""`make test`: every test, two at a time; a few failed tests are named and tried once more, alone.

With a neighbour on two processors a test may not get the time that it waits for.  A real fault fails alone too.
Failures in more than a few files have another reason, and are not tried again.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BESIDE_OTHERS = ("-n", "2", "--dist", "loadscope", "--no-loadscope-reorder")
ALONE = ("--last-failed", "--last-failed-no-failures", "none")
MOST_FILES = 3
"""A fixture that a file shares fails all of its tests."""
ROOT = Path(__file__).parents[2]


def names_to_try_again(code: int, kept: str) -> list[str]:
    """Return the failures in pytest's own file that get another try: all of them, or none."""
    names = sorted(json.loads(kept)) if code == pytest.ExitCode.TESTS_FAILED else []
    return names if len({name.partition("::")[0] for name in names}) <= MOST_FILES else []


def main() -> int:
    code = _pytest(*BESIDE_OTHERS, *sys.argv[1:])
    kept = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
    again = names_to_try_again(code, kept.read_text() if kept.exists() else "{}")
    if not again:
        return code
    print("\nThese failed beside others. Once more, alone; one that passes now is to be looked into all the same:")
    print("\n".join(f"  FAILED BESIDE OTHERS {name}" for name in again), flush=True)
    return _pytest(*ALONE)


def _pytest(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
