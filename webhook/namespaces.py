"""Where namespaces' policies come from: a file, or a cluster's watch.

A namespace that is not known is asked for once; what cannot be known is an error the API server retries, never a guess.
May import `namespace_policy`, settings, and (for the watch) the Kubernetes client.
"""

from pathlib import Path
from typing import Any, Protocol

import yaml

from webhook.errors import StartError
from webhook.fields import Json
from webhook.namespace_policy import NamespacePolicy, read_namespace
from webhook.settings import Settings


class Namespaces(Protocol):
    """A source of policies."""

    def policy_of(self, name: str) -> NamespacePolicy: ...
    def start(self) -> None: ...
    def why_unready(self) -> str: ...
    def age_seconds(self) -> float: ...


class FileNamespaces:
    """Namespaces of a YAML file; one that is not in it has not opted in."""

    def __init__(self, documents: list[Json]) -> None:
        self._policies = {policy.name: policy for policy in map(read_namespace, documents)}

    def policy_of(self, name: str) -> NamespacePolicy:
        return self._policies.get(name) or NamespacePolicy(name=name)

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
    except (OSError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise StartError(
            f"the namespace file {path} cannot be read ({reason}). Name a YAML file of Namespaces."
        ) from None
    for item in documents:
        if not isinstance(item, dict) or item.get("kind") != "Namespace":
            raise StartError(
                f"the namespace file {path} holds something that is no Namespace. Leave only Namespaces in it."
            )
    return FileNamespaces(documents)


def source_of(settings: Settings) -> Namespaces:
    """The source that the settings name."""
    if settings.namespace_file:
        return load_namespace_file(settings.namespace_file)
    raise StartError("no namespaces are known. Name a --namespace-file.")
