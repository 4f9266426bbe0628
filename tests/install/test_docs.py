"""The docs name files, tests, flags and commands that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_chapter_that_is_linked_exists(page: Path) -> None:
    for target, chapter in re.findall(r"\]\(([^)#\s]*)#([^)]+)\)", page.read_text()):
        text = (page.parent / target).read_text() if target else page.read_text()
        assert chapter in {_anchor(line) for line in text.splitlines() if line.startswith("#")}, chapter


def test_every_test_that_the_threat_model_names_exists() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    for name in re.findall(r"`(test_[a-z0-9_]+)`", (ROOT / "docs" / "threat-model.md").read_text()):
        assert f"def {name}(" in tests, name


def test_every_file_that_the_docs_name_exists() -> None:
    for page in PAGES:
        for name in re.findall(r"`((?:manifests|tests|docs)/[\w./-]+)`", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")


def test_every_metric_that_the_docs_name_exists_in_some_program() -> None:
    rooms = ("webhook", "deviceplugin", "schedulerd")
    sources = "".join(path.read_text() for room in rooms for path in (ROOT / room).rglob("*.py"))
    page = (ROOT / "docs" / "metrics.md").read_text()
    for program, rest in re.findall(r"`nvshare_(webhook|device_plugin|schedulerd)_([a-z_]+)", page):
        assert rest.removesuffix("_total") in sources, f"nvshare_{program}_{rest}"
