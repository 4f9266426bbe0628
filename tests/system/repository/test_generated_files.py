"""`.gitattributes` marks the files that programs write, so that reviews fold them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROWS = (ROOT / ".gitattributes").read_text().splitlines()
NAMES = [row.split()[0] for row in ROWS if row and not row.startswith("#")]
pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git repository: the attributes cannot be read")


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def marked() -> set[str]:
    return set(git("ls-files", ":(attr:linguist-generated)"))


def test_every_generated_file_is_marked() -> None:
    written = git("grep", "-lE", "^(# )?Written by `(nvshare|python)", "--", ":!*.py") + git(
        "ls-files", "*_pb2.py", "*_pb2.pyi"
    )

    assert set(written) - marked() == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_the_attributes_names_a_file_that_exists(name: str) -> None:
    assert git("ls-files", name if "/" in name else f":(glob)**/{name}") != []
