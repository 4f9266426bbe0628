"""The docs name files, tests, flags and commands that exist."""

import re
from pathlib import Path

import pytest

import deviceplugin.settings
import schedulerd.settings
import webhook.settings

ROOT = Path(__file__).parents[3]
_METRICS = ROOT / "docs" / "metrics.md"
PAGES = sorted(page for page in (*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/*.md")) if page.parent.name != "build")


def _of_root(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_of_root)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=_of_root)
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
        for name in re.findall(r"`((?:manifests|tests|testbed|docs)/[\w./-]+)`", page.read_text()):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")


def test_every_metric_that_the_docs_name_exists_in_some_program() -> None:
    rooms = ("webhook", "deviceplugin", "schedulerd")
    sources = "".join(path.read_text() for room in rooms for path in (ROOT / room).rglob("*.py"))
    for name in re.findall(r"`(?:nvshare_(?:webhook|device_plugin|schedulerd)|…)_([a-z_]+)", _METRICS.read_text()):
        assert name.removesuffix("_total") in sources, name


@pytest.mark.parametrize(
    "source", ["schedulerd/observer/exposition.py", "webhook/serving/metrics.py", "deviceplugin/reporting/metrics.py"]
)
def test_every_metric_of_a_program_is_in_the_docs(source: str) -> None:
    names = re.findall(
        r"[\"}](?:nvshare_(?:webhook|schedulerd)|\{_PREFIX\})_([a-z_]+)[\"_{]", (ROOT / source).read_text()
    )
    page = _METRICS.read_text()
    families = {name.removesuffix("_sum") for name in names}
    unheard = {name for name in families if not any(f"_{name}{end}" in page for end in ("`", "{", "_total"))}
    assert len(names) > 3
    assert not unheard


_SETTINGS = {
    "deviceplugin/README.md": {option.flag[2:] for option in deviceplugin.settings.OPTIONS},
    "webhook/README.md": {option.flag[2:] for option in webhook.settings.OPTIONS},
    "schedulerd/README.md": {option.flag[2:] for option in schedulerd.settings.OPTIONS},
}


@pytest.mark.parametrize("page", _SETTINGS)
def test_every_setting_is_in_the_rooms_readme_and_nothing_else(page: str) -> None:
    chapter = re.split(r"^## (?:Settings.*)$", (ROOT / page).read_text(), flags=re.MULTILINE)[1].partition("\n## ")[0]
    rows = "\n".join(line.split("|")[1] for line in chapter.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"--([a-z-]+)", rows)) == _SETTINGS[page]
