"""YAML as Kubernetes' tools read and write it, which is not quite PyYAML's: no dates, no base 60, `1e3` a number.

The rule it owns: what is read and written again means the same to Kubernetes.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import yaml

_RESOLVED: tuple[tuple[str, str, str], ...] = (
    (
        "tag:yaml.org,2002:bool",
        r"(?:y|Y|n|N|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)",
        "yYnNtTfFoO",
    ),
    (
        "tag:yaml.org,2002:float",
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))",
        "-+0123456789.",
    ),
    (
        "tag:yaml.org,2002:int",
        r"(?:[-+]?0b[0-1_]+|[-+]?0o?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)",
        "-+0123456789",
    ),
    ("tag:yaml.org,2002:merge", r"(?:<<)", "<"),
    ("tag:yaml.org,2002:null", r"(?:~|null|Null|NULL|)", "~nN\0"),
)


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for tag, pattern, firsts in _RESOLVED:
        for first in firsts:
            table.setdefault("" if first == "\0" else first, []).append((tag, re.compile(f"^{pattern}$")))
    return table


def _both(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {first: [*one.get(first, []), *other.get(first, [])] for first in {*one, *other}}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = _resolvers()
    bool_values: ClassVar[dict[str, bool]] = {**yaml.SafeLoader.bool_values, "y": True, "n": False}


class _Dumper(yaml.SafeDumper):
    # Quotes whatever either PyYAML or Kubernetes would not read back as text.
    yaml_implicit_resolvers = _both(yaml.SafeDumper.yaml_implicit_resolvers, _resolvers())

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  no anchors, whatever is shared
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    is_block = "\n" in value and not re.search(r"[^\S\n]\n|\t|\r", value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if is_block else None)


_Dumper.add_representer(str, _text)


def read_documents(text: str) -> Iterator[Any]:
    """Yield every document in the text but the empty ones; raise yaml.YAMLError."""
    return (document for document in yaml.load_all(text, _Loader) if document is not None)


def write_documents(documents: list[Any]) -> str:
    """Return the documents as YAML, keys in their order."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, explicit_start=len(documents) > 1, width=120)
