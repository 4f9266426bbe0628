"""The commands of docs/install.md and README.md, pasted in the folder that holds the clone, build with kustomize."""

import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
import yaml

from tests.system.manifests.kustomized import ROOT, rendered

_REPOSITORY = ROOT.parent
_INSTALL, _README = _REPOSITORY / "docs" / "install.md", _REPOSITORY / "README.md"


@pytest.fixture
def beside_the_clone(tmp_path: Path) -> Path:
    """Return a folder that holds a clone named as the pages assume."""
    shutil.copytree(ROOT, tmp_path / "nvshare-guard" / "manifests")
    return tmp_path


def _blocks(page: Path) -> list[str]:
    found = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", page.read_text(), flags=re.MULTILINE)
    return [textwrap.dedent(block).strip() + "\n" for block in found]


def _paste(page: Path, folder: Path, name: str = "ours") -> Path:
    """Run the lines of the page that make a folder, and return it."""
    (lines,) = (block for block in _blocks(page) if f"mkdir -p {name}" in block)
    script = lines[lines.index("mkdir") : lines.index("\nEND\n") + 5]
    subprocess.run(["sh", "-eu", "-c", script], cwd=folder, check=True, timeout=30)
    return folder / name


@pytest.mark.parametrize("page", [_INSTALL, _README], ids=["docs/install.md", "README.md"])
def test_the_kustomization_builds_as_pasted(page: Path, beside_the_clone: Path) -> None:
    assert "image: registry.example/nvshare-guard:0.1.0" in rendered(_paste(page, beside_the_clone))


def test_the_doctors_folder_builds_as_pasted(beside_the_clone: Path) -> None:
    (job,) = yaml.safe_load_all(rendered(_paste(_INSTALL, beside_the_clone, "doctor")))
    spec = job["spec"]["template"]["spec"]

    assert (job["kind"], job["metadata"]["namespace"]) == ("Job", "nvshare-system")
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "gpu-1"}
    assert spec["containers"][0]["image"] == "registry.example/nvshare-guard:0.1.0"


def test_each_patch_and_component_of_the_page_builds_too(beside_the_clone: Path) -> None:
    ours = _paste(_INSTALL, beside_the_clone) / "kustomization.yaml"
    added = [block for block in _blocks(_INSTALL) if block.startswith(("patches:", "components:"))]
    for block in added:
        ours.write_text(yaml.safe_dump(yaml.safe_load(ours.read_text()) | yaml.safe_load(block)))
        rendered.cache_clear()
        assert rendered(ours.parent)
    assert len(added) == 3


def test_the_folders_that_the_page_applies_exist(beside_the_clone: Path) -> None:
    applied = set(re.findall(r"kubectl apply -k (\S+)", _INSTALL.read_text())) - {"ours", "doctor"}
    for name in applied:
        assert rendered(beside_the_clone / name)
    assert applied == {"nvshare-guard/manifests/monitoring"}
