"""`check` and `inject` on files as people have them: workloads, lists, several documents, folders, standard input."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from adapters.kubernetes.manifests import read_documents, write_documents
from tests.fakes.pods import container, pod
from webhook.__main__ import main
from webhook.admission.json_fields import Json
from webhook.offline.judgement import POD_PLACES

ENABLED = ("--injection", "enabled")


def _object(version: str, kind: str, spec: Json) -> Json:
    """Return an object of that kind around the spec of a pod."""
    template: Any = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    for step in reversed(POD_PLACES[version, kind]):
        template = [template] if step == "*" else {step: template}
    found = template if POD_PLACES[version, kind] else {"spec": spec}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **found}


@pytest.mark.parametrize(("version", "kind"), list(POD_PLACES), ids=str)
def test_every_kind_that_makes_pods_is_known(version: str, kind: str, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(yaml.safe_dump(_object(version, kind, pod(container("main", 3))["spec"])))
    assert main(["check", "-f", str(file), *ENABLED]) == 1
    assert "MultiGpuWithoutMode" in capsys.readouterr().out

    file.write_text(yaml.safe_dump(_object(version, kind, pod(container("main", 1))["spec"])))
    assert main(["inject", "-f", str(file), *ENABLED]) == 0
    written = capsys.readouterr().out
    assert written.count("NVSHARE_MODE") == 1
    assert yaml.safe_load(written)["metadata"] == (
        {"name": "x"}
        if kind != "Pod"
        else {
            "name": "x",
            "annotations": {"nvshare.com/injected": "v1 main=single volumes"},
            "labels": {"nvshare.com/vgpu": "true"},
        }
    )


def test_a_volcano_job_has_a_template_a_task(tmp_path: Path, capsys: Any) -> None:
    tasks = [
        {"name": "driver", "template": {"spec": pod(container("a", None))["spec"]}},
        {"name": "worker", "template": {"spec": pod(container("b", 1))["spec"]}},
    ]
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"tasks": tasks},
    }
    (tmp_path / "j.yaml").write_text(yaml.safe_dump(job))

    assert main(["check", "-f", str(tmp_path / "j.yaml"), *ENABLED, "--output", "json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert [(item["place"], item["verdict"]) for item in found] == [
        ("/spec/tasks/0/template", "allowed"),
        ("/spec/tasks/1/template", "completed"),
    ]


def test_an_object_without_pods_is_written_unchanged(tmp_path: Path, capsys: Any) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  port: '22:22'\n  flag: 'y'\n  big: '1e3'\n"
    (tmp_path / "c.yaml").write_text(text)
    assert main(["inject", "-f", str(tmp_path / "c.yaml"), *ENABLED]) == 0
    assert capsys.readouterr().out == text


def test_several_documents_lists_and_folders(tmp_path: Path, capsys: Any) -> None:
    items = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [pod(container("a", 1), name="one"), pod(container("b", 2), name="two")],
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump_all([items, pod(container("c", None), name="three")]))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.json").write_text(json.dumps(pod(container("d", 1), name="four")))
    (tmp_path / "notes.txt").write_text("not ours")

    assert main(["check", "-f", str(tmp_path), *ENABLED, "--output", "json"]) == 1

    found = json.loads(capsys.readouterr().out)
    assert {item["name"]: item["verdict"] for item in found} == {
        "one": "completed",
        "two": "denied",
        "three": "allowed",
        "four": "completed",
    }


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump(pod(container("a", 1)))))
    assert main(["check", "-f", "-", *ENABLED]) == 0
    assert "pod/trainer in namespace default: completed" in capsys.readouterr().out


def test_a_namespace_of_the_same_files_counts(tmp_path: Path, capsys: Any) -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "default", "annotations": {"nvshare.com/multi-gpu": "gang"}},
    }
    namespace["metadata"]["labels"] = {"nvshare.com/injection": "enabled"}  # type: ignore[index]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([namespace, pod(container("a", 4))]))
    assert main(["check", "-f", str(tmp_path / "all.yaml")]) == 0
    assert "trainer in namespace default: completed" in capsys.readouterr().out


def test_a_namespace_with_a_value_we_do_not_know(tmp_path: Path, capsys: Any) -> None:
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team-a", "labels": {"nvshare.com/injection": "yes"}},
    }
    (tmp_path / "n.yaml").write_text(yaml.safe_dump(namespace))
    assert main(["check", "-f", str(tmp_path / "n.yaml")]) == 1
    assert "NamespaceValueUnknown" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a: [", "is not YAML"),
        ("- 1\n", "no Kubernetes object"),
        ("kind: Pod\napiVersion: v1\nspec: 3\n", "'spec' must be an object"),
        ("kind: 3\n", "'kind' must be text"),
    ],
)
def test_bad_input_gets_a_cause_and_a_remedy(content: str, says: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "bad.yaml").write_text(content)
    for command in ("check", "inject"):
        assert main([command, "-f", str(tmp_path / "bad.yaml"), *ENABLED]) == 2
        said = capsys.readouterr().err
        assert "bad.yaml" in said
        assert says in said


@pytest.mark.parametrize(
    "arguments",
    [["-f", "/nowhere.yaml"], ["-f", ".", "--namespace-annotation", "x"], ["-f", ".", "--namespace-file", "/nowhere"]],
    ids=str,
)
def test_bad_arguments(arguments: list[str], capsys: Any) -> None:
    assert main(["check", *arguments]) == 2
    assert "nvshare-webhook: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "value",
    [
        "22:22",
        "y",
        "on",
        "1e3",
        "0x1",
        "2026-01-01",
        "null",
        "~",
        "1_0",
        "",
        " a",
        "a\nb\n",
        "<<",
        "=",
        ".inf",
        "'",
        "é",
    ],
)
def test_text_stays_text_through_yaml(value: str) -> None:
    (document,) = read_documents(write_documents([{"key": value}]))
    assert document == {"key": value}


@pytest.mark.parametrize(
    ("text", "value"), [("1e3", 1000.0), ("22:22", "22:22"), ("2026-01-01", "2026-01-01"), ("yes", True), ("0o17", 15)]
)
def test_scalars_mean_what_they_mean_to_kubernetes(text: str, value: object) -> None:
    assert list(read_documents(f"key: {text}")) == [{"key": value}]
