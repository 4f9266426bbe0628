"""Where namespaces' policies come from: a file, or a cluster (`namespace_watch`).

A file's namespaces are all there are: one that is not in it has not opted in.
"""

from pathlib import Path
from typing import Any, Protocol

import yaml

from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import NamespacePolicy, read_namespace
from webhook.errors import MalformedObject, StartError
from webhook.settings import Settings


class Namespaces(Protocol):
    """A source of policies."""

    def known(self, name: str) -> NamespacePolicy:
        """At once; raises NamespaceUnknown where it must be asked for."""
        ...

    def policy_of(self, name: str) -> NamespacePolicy: ...
    def start(self) -> None: ...
    def why_unready(self) -> str: ...
    def age_seconds(self) -> float: ...


class FileNamespaces:
    """Namespaces of a YAML file."""

    def __init__(self, documents: list[Json]) -> None:
        self._policies = {policy.name: policy for policy in map(read_namespace, documents)}

    def known(self, name: str) -> NamespacePolicy:
        return self._policies.get(name) or NamespacePolicy(name=name)

    def policy_of(self, name: str) -> NamespacePolicy:
        return self.known(name)

    def start(self) -> None:
        """Nothing to start."""

    def why_unready(self) -> str:
        return ""

    def age_seconds(self) -> float:
        return 0.0


def load_namespace_file(path: str) -> FileNamespaces:
    """The Namespaces in a YAML file."""
    try:
        documents: list[Any] = [item for item in yaml.safe_load_all(Path(path).read_text()) if item]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise StartError(f"the namespace file {path} cannot be read ({reason}). Name a file of Namespaces.") from None
    if not all(isinstance(item, dict) and item.get("kind") == "Namespace" for item in documents):
        raise StartError(f"the namespace file {path} holds something that is no Namespace. Leave only those in it.")
    try:
        return FileNamespaces(documents)
    except MalformedObject as error:
        raise StartError(f"the namespace file {path} has a Namespace that is none: {error}. Correct it.") from None


def source_of(settings: Settings) -> Namespaces:
    """The source that the settings name."""
    if settings.namespace_file:
        return load_namespace_file(settings.namespace_file)
    from webhook.namespaces.watch import watch_cluster

    return watch_cluster(settings.kubeconfig)
