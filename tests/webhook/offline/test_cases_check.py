"""Every case file through `nvshare-webhook check` and `inject`, with its namespace in a file."""

import json
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from adapters.kubernetes.manifests import read_documents, write_documents
from tests.webhook.cases import CASES, Case
from webhook.__main__ import main

OFFLINE = [case for case in CASES if case.old is None]


def _files(case: Case, folder: Path) -> list[str]:
    pod = {**case.pod, "metadata": {**case.pod["metadata"], "namespace": case.namespace_name}}
    (folder / "pod.yaml").write_text(write_documents([pod]))
    (folder / "namespaces.yaml").write_text(write_documents([case.namespace_object]))
    return ["-f", str(folder / "pod.yaml"), "--namespace-file", str(folder / "namespaces.yaml")]


@pytest.mark.parametrize("case", OFFLINE, ids=lambda case: case.name)
def test_check_gives_the_same_codes(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", *_files(case, tmp_path), "--output", "json"])

    (finding,) = json.loads(capsys.readouterr().out)
    is_denied = bool(case.offline_codes) and case.expect["verdict"] != "warned"
    assert (finding["codes"], code) == (case.offline_codes, 1 if is_denied else 0)


@pytest.mark.parametrize("case", OFFLINE, ids=lambda case: case.name)
def test_inject_writes_the_completed_pod(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = _files(case, tmp_path)
    (given,) = read_documents((tmp_path / "pod.yaml").read_text())

    code = main(["inject", *files])

    written = next(read_documents(capsys.readouterr().out), None)
    if code == 0:
        assert written is not None
        case.check_pod(written)
        assert _only_adds_ours(given, written)
    else:
        assert written is None


def _only_adds_ours(given: Any, written: Any) -> bool:
    """Tell whether only fields that we write differ."""
    resources, metadata = ("/resources/limits", "/resources/requests"), ("/metadata/annotations", "/metadata/labels")
    ours = ("/env", "/volume", "/affinity", *resources, *metadata)
    return all(any(part in item["path"] for part in ours) for item in jsonpatch.make_patch(given, written))
