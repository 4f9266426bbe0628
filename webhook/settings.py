"""What the server can be told: by flag, by environment, by one file, in this order; printed at start.

One table of options, each with its unit and reason; an unknown name or a value out of range is an error.
May import the room's errors.
"""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from contract import names
from webhook.admission.decision import VOLUME_CHOICES, Volumes
from webhook.admission.namespace_policy import PodSecurity
from webhook.errors import StartError

ENVIRONMENT_PREFIX = "NVSHARE_WEBHOOK_"


class Format(StrEnum):
    """How a line looks."""

    JSON = "json"
    TEXT = "text"


class CertificateFrom(StrEnum):
    """Where the serving certificate comes from."""

    FILES = "files"
    SECRET = "secret"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How this process serves."""

    cert: str
    key: str
    certificate_from: CertificateFrom
    host: str
    port: int
    metrics_port: int
    namespace_file: str
    kubeconfig: str
    volumes: Volumes
    default_pod_security: PodSecurity
    log_format: Format
    connections: int
    in_flight: int
    handshake_seconds: float
    body_seconds: float
    idle_seconds: int
    drain_seconds: float
    stop_seconds: int


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: its flag is `--name-with-dashes`, its variable the prefix and the name in capitals."""

    name: str
    default: object
    read: Callable[[str], object]
    help: str


def _between(kind: Callable[[str], float], least: float, most: float) -> Callable[[str], object]:
    def read(text: str) -> object:
        value = kind(text)
        if not least <= value <= most:
            raise ValueError(f"must be from {least:g} to {most:g}")
        return value

    return read


def _volumes(text: str) -> object:
    if text not in VOLUME_CHOICES:
        raise ValueError("must be auto or never")
    return Volumes(text)


_PORT = _between(int, 0, 65535)
_SECONDS = _between(float, 0, 3600)
OPTIONS: tuple[Option, ...] = (
    Option("cert", "", str, "file with the serving certificate (PEM); read again when it changes"),
    Option("key", "", str, "file with its private key (PEM)"),
    Option(
        "certificate_from", CertificateFrom.FILES, CertificateFrom, "files (--cert, --key), or secret: the cluster's"
    ),
    Option("host", "any", str, "address to listen on, such as 127.0.0.1 or ::1; any: all, of IPv4 and IPv6"),
    Option("port", names.WEBHOOK_PORT, _PORT, "port for the API server; 0 takes a free one and says which"),
    Option("metrics_port", names.METRICS_PORT, _PORT, "port for /metrics, without TLS; 0 takes a free one"),
    Option("namespace_file", "", str, "YAML file of Namespaces to believe instead of a cluster's"),
    Option(
        "kubeconfig",
        "",
        str,
        "kubeconfig of the cluster; by default KUBECONFIG, else the pod's service account, else ~/.kube/config",
    ),
    Option("volumes", Volumes.AUTO, _volumes, "auto, or never: hook and socket come with the allocation alone"),
    Option(
        "default_pod_security",
        PodSecurity.PRIVILEGED,
        PodSecurity,
        "privileged, baseline or restricted: the cluster's level for namespaces without Pod Security's enforce label",
    ),
    Option("log_format", Format.JSON, Format, "json or text"),
    Option("connections", 4000, _between(int, 16, 100_000), "open connections at most; the API server keeps idle ones"),
    Option("in_flight", 512, _between(int, 1, 100_000), "reviews at once; beyond it 503 with Retry-After"),
    Option("handshake_seconds", 5.0, _SECONDS, "a TLS handshake that takes longer is dropped"),
    Option("body_seconds", 10.0, _SECONDS, "a request body that takes longer is refused"),
    Option(
        "idle_seconds", 120, _between(int, 91, 3600), "an idle connection is kept; the API server keeps them for 90 s"
    ),
    Option("drain_seconds", 5.0, _SECONDS, "after SIGTERM: unready, but serving, until endpoints have forgotten us"),
    Option("stop_seconds", 10, _between(int, 1, 3600), "after that: open connections get so long to finish"),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """A flag for every option, and one for the settings file."""
    parser.add_argument("--settings", default="", metavar="FILE", help="YAML file with any of the settings below")
    for option in OPTIONS:
        shown = f"{option.help} (default: {option.default})" if option.default != "" else option.help
        parser.add_argument(_flag(option), dest=option.name, default=None, metavar="VALUE", help=shown)


def _flag(option: Option) -> str:
    return "--" + option.name.replace("_", "-")


def read_settings(flags: Mapping[str, str | None], environ: Mapping[str, str], file: Mapping[str, Any]) -> Settings:
    """The settings: a flag beats the environment, which beats the file."""
    known = {option.name for option in OPTIONS}
    unknown = sorted(str(name) for name in file if name not in known)
    if unknown:
        raise StartError(f"the settings file has {unknown[0]!r}, which is no setting. Use: {', '.join(sorted(known))}.")
    environ = {name: text for name, text in environ.items() if _is_for_us(name, text)}
    strange = sorted(set(environ) - {_variable(option) for option in OPTIONS})
    if strange:
        variables = ", ".join(sorted(_variable(option) for option in OPTIONS))
        raise StartError(f"the variable {strange[0]} is no setting. Unset it, or use one of: {variables}.")
    return Settings(**{option.name: _value(option, flags, environ, file) for option in OPTIONS})  # type: ignore[arg-type]


def _variable(option: Option) -> str:
    return ENVIRONMENT_PREFIX + option.name.upper()


def _is_for_us(name: str, text: str) -> bool:
    """Not what Kubernetes tells of a Service nvshare-webhook or nvshare-webhook-…, under names of the same beginning:
    the manifests say `enableServiceLinks: false`, other people's pods in that namespace may not."""
    if not name.startswith(ENVIRONMENT_PREFIX):
        return False
    return not (_SERVICES.fullmatch(name) or (name.endswith("_PORT") and _SERVICES_URL.match(text)))


_SERVICES = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_SERVICES_URL = re.compile(r"(tcp|udp|sctp)://")


def _value(
    option: Option, flags: Mapping[str, str | None], environ: Mapping[str, str], file: Mapping[str, Any]
) -> object:
    variable = _variable(option)
    sources = (
        (flags.get(option.name), _flag(option)),
        (environ.get(variable), variable),
        (file.get(option.name), f"{option.name} in the settings file"),
    )
    for text, source in sources:
        if text is not None:
            try:
                return option.read(str(text))
            except ValueError as error:
                raise StartError(f"{source} cannot be {str(text)[:80]!r} ({error}). It is: {option.help}.") from None
    return option.default


def read_file(path: str) -> Mapping[str, Any]:
    """The settings in a YAML file; none where no file is named."""
    if not path:
        return {}
    try:
        content = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
        raise StartError(f"the settings file {path} cannot be read ({_first_line(error)}). Name a YAML file.") from None
    if not isinstance(content, dict):
        raise StartError(f"the settings file {path} is no YAML mapping. Write one `name: value` a line.")
    return content


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def describe(settings: Settings) -> Iterator[str]:
    """One `name=value` for each setting; there is no secret among them, only files that hold one."""
    return (f"{option.name}={getattr(settings, option.name)}" for option in OPTIONS)
