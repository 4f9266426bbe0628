"""The source of the namespaces' policies: a file (here), or a cluster (`watch`).

The rule it owns: a file's namespaces are all that exist.  A namespace that is not in the file has not opted in.
"""

from pathlib import Path
from typing import Any, Protocol

import yaml

from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import NamespacePolicy, read_namespace
from webhook.errors import MalformedObject, StartError
from webhook.settings import Settings


class Namespaces(Protocol):
    """A source of policies, as the server uses it."""

    def known(self, name: str) -> NamespacePolicy | None:
        """Return the policy at once, or None where the API server must be asked."""
        ...

    def ask(self, name: str) -> NamespacePolicy:
        """Ask the API server for the policy, which takes a while; raise NotSynced where it does not answer."""
        ...

    def start(self) -> None: ...
    def why_unready(self) -> str: ...
    def age_seconds(self) -> float: ...


class FileNamespaces:
    """The namespaces of a YAML file."""

    def __init__(self, documents: list[Json]) -> None:
        self._policies = {policy.name: policy for policy in map(read_namespace, documents)}

    def known(self, name: str) -> NamespacePolicy:
        return self._policies.get(name) or NamespacePolicy(name=name)

    def ask(self, name: str) -> NamespacePolicy:
        return self.known(name)

    def start(self) -> None:
        """Do nothing: a file is read once."""

    def why_unready(self) -> str:
        return ""

    def age_seconds(self) -> float:
        return 0.0


def load_namespace_file(path: str) -> FileNamespaces:
    """Read the Namespaces of a YAML file; raise StartError where it is no such file."""
    try:
        documents: list[Any] = [item for item in yaml.safe_load_all(Path(path).read_text()) if item]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise StartError(f"the namespace file {path} cannot be read ({reason}). Name a file of Namespaces.") from None
    if not all(isinstance(item, dict) and item.get("kind") == "Namespace" for item in documents):
        raise StartError(
            f"the namespace file {path} holds an object that is no Namespace. Leave only Namespaces in it."
        )
    try:
        return FileNamespaces(documents)
    except MalformedObject as error:
        raise StartError(f"the namespace file {path} has a malformed Namespace: {error}. Correct it.") from None


def source_of(settings: Settings) -> Namespaces:
    """Return the source that the settings name."""
    if settings.namespace_file:
        return load_namespace_file(settings.namespace_file)
    from webhook.namespaces.watch import watch_cluster

    return watch_cluster(settings.kubeconfig)
