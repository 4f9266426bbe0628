"""The commands `check` and `inject`: files go in, decisions or YAML come out.

Exit codes: 0 allowed; 1 denied; 2 some input cannot be read.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from adapters.kubernetes.manifests import read_documents, write_documents
from contract.words import names
from contract.words.grammar import Injection
from webhook.admission.decision import VOLUME_CHOICES, Verdict, Volumes
from webhook.admission.json_fields import Json, read_text
from webhook.admission.namespace_policy import NamespacePolicy, PodSecurity, policy_of, read_namespace
from webhook.errors import MalformedObject, StartError
from webhook.offline.judgement import Finding, completed, is_denied, judge, objects_in

_SUFFIXES = (".yaml", ".yml", ".json")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `check` and `inject` have in common."""
    parser.add_argument(
        "-f", "--file", action="append", required=True, metavar="FILE|-|DIR", help="YAML or JSON; may be repeated"
    )
    parser.add_argument("--namespace", default="default", help="for objects that name none (default: default)")
    parser.add_argument(
        "--namespace-file", metavar="FILE", help="YAML file of Namespaces; the others have not opted in"
    )
    parser.add_argument(
        "--injection", choices=(*Injection, "none"), help=f"the namespace's label {names.INJECTION_LABEL}"
    )
    parser.add_argument("--namespace-label", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--namespace-annotation", action="append", default=[], metavar="KEY=VALUE")
    add_volume_flags(parser)


def add_volume_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that decide whether hook and socket are volumes."""
    parser.add_argument("--volumes", choices=VOLUME_CHOICES, default=Volumes.AUTO, help="as `serve` has it")
    parser.add_argument(
        "--default-pod-security", choices=tuple(PodSecurity), default=PodSecurity.PRIVILEGED, help="as `serve` has it"
    )


@dataclass(slots=True)
class Policies:
    """The policies of namespaces: those in files; the flags describe every other namespace."""

    labels: dict[str, str]
    annotations: dict[str, str]
    known: dict[str, NamespacePolicy] = field(default_factory=dict)

    def of(self, name: str) -> NamespacePolicy:
        return self.known.get(name) or policy_of(name, self.labels, self.annotations)


def _policies(arguments: argparse.Namespace) -> Policies:
    labels = dict(_pair(text) for text in arguments.namespace_label)
    annotations = dict(_pair(text) for text in arguments.namespace_annotation)
    injection = arguments.injection
    if injection is None and not arguments.namespace_file and names.INJECTION_LABEL not in labels:
        injection = Injection.ENABLED.value
        print(
            f"nvshare-webhook: no namespace is described, so it is taken as {names.INJECTION_LABEL}: enabled"
            " (describe it with --namespace-file or --injection)",
            file=sys.stderr,
        )
    if injection not in (None, "none"):
        labels[names.INJECTION_LABEL] = injection
    policies = Policies(labels, annotations)
    if arguments.namespace_file:
        _learn(policies, arguments.namespace_file)
    return policies


def _learn(policies: Policies, path: str) -> None:
    for _, item in _objects(path):
        if read_text(item, "kind") != "Namespace":
            raise StartError(f"{path} holds an object that is no Namespace. Leave only Namespaces in it.")
        policy = read_namespace(item)
        policies.known[policy.name] = policy


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise StartError(f"{text!r} is not KEY=VALUE. Write, for example, {names.MAX_GPUS}=4.")
    return key, value


def _texts(source: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file."""
    try:
        if source == "-":
            yield "standard input", sys.stdin.read()
        elif Path(source).is_dir():
            files = sorted(path for path in Path(source).rglob("*") if path.suffix in _SUFFIXES and path.is_file())
            if not files:
                raise StartError(f"the folder {source} holds no {', '.join(_SUFFIXES)} file. Name another.")
            yield from ((str(path), path.read_text()) for path in files)
        else:
            yield source, Path(source).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(
            f"{source} cannot be read ({error}). Name a file, a folder, or - for standard input."
        ) from None


def _objects(source: str) -> Iterator[tuple[str, Json]]:
    """Yield each object in the source, with the name of its file."""
    for name, text in _texts(source):
        try:
            with _naming(name):
                yield from ((name, item) for document in read_documents(text) for item in _items(name, document))
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            raise StartError(f"{name} is not YAML ({_one_line(error)}). Correct it there.") from None


def _items(name: str, document: object) -> Iterator[Json]:
    if not isinstance(document, dict):
        raise StartError(f"{name} holds a document that is no Kubernetes object. Remove it.")
    return objects_in(document)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _judged(arguments: argparse.Namespace) -> list[tuple[Json, list[Finding]]]:
    policies = _policies(arguments)
    objects = [found for source in arguments.file for found in _objects(source)]
    for name, item in objects:
        if read_text(item, "apiVersion") == "v1" and read_text(item, "kind") == "Namespace":
            with _naming(name):
                policy = read_namespace(item)
            policies.known.setdefault(policy.name, policy)
    volumes = Volumes(arguments.volumes).in_cluster(PodSecurity(arguments.default_pod_security))
    judged = []
    for name, item in objects:
        with _naming(name):
            findings = judge(item, policies.of, default_namespace=arguments.namespace, volumes=volumes)
        judged.append((item, findings))
    return judged


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """Put the name of the file into the error of a malformed object."""
    try:
        yield
    except MalformedObject as error:
        raise StartError(f"{file} is not a Kubernetes object: {error}. Correct it there.") from None


def check(arguments: argparse.Namespace) -> int:
    """Print the decision on every pod and template."""
    findings = [finding for _, found in _judged(arguments) for finding in found]
    if arguments.output == "json":
        print(json.dumps([_as_json(finding) for finding in findings], indent=2))
    elif not findings:
        print("nothing here creates pods")
    else:
        print("\n".join(line for finding in findings for line in _lines(finding)))
    return 1 if is_denied(findings) else 0


def inject(arguments: argparse.Namespace) -> int:
    """Write every object as admission would complete it; where a pod is denied, print why and write nothing."""
    judged = _judged(arguments)
    findings = [finding for _, found in judged for finding in found]
    for finding in findings:
        if finding.decision.verdict not in (Verdict.ALLOWED, Verdict.COMPLETED):
            print("\n".join(_lines(finding)), file=sys.stderr)
    if is_denied(findings):
        return 1
    sys.stdout.write(write_documents([completed(item, found) for item, found in judged]))
    return 0


def _title(finding: Finding) -> str:
    place = f" at {finding.place}" if finding.place else ""
    return f"{finding.kind.lower()}/{finding.name} in namespace {finding.namespace}{place}"


def _lines(finding: Finding) -> Iterator[str]:
    decision = finding.decision
    yield f"{_title(finding)}: {decision.verdict}"
    if decision.verdict is Verdict.DENIED:
        for refusal in decision.refusals:
            yield f"  {refusal.code}: {refusal.cause}"
            yield "  fix: " + refusal.remedy.replace("\n", "\n    ")
    yield from (f"  warning: {warning}" for warning in decision.warnings)


def _as_json(finding: Finding) -> Json:
    decision = finding.decision
    said: dict[str, Any] = {
        "kind": finding.kind,
        "name": finding.name,
        "namespace": finding.namespace,
        "place": finding.place,
        "verdict": decision.verdict.value,
        "codes": list(decision.codes),
        "refusals": [{"code": item.code, "cause": item.cause, "remedy": item.remedy} for item in decision.refusals],
        "warnings": list(decision.warnings),
        "patch": list(decision.patch),
    }
    return said
