"""The settings of `serve`: by flag, by environment variable, by one file, in this order; they are printed at start.

The rule it owns: a setting is one row of the table.  `adapters.options` reads the table; `--help` and the README list
the same rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from adapters.options import PORT, TEXT, Option, Table, number, one_of, whole
from contract.words import names
from webhook.admission.decision import VOLUME_CHOICES, Volumes
from webhook.admission.namespace_policy import PodSecurity
from webhook.errors import StartError

ENVIRONMENT_PREFIX = "NVSHARE_WEBHOOK_"


class Format(StrEnum):
    """The form of a log line."""

    JSON = "json"
    TEXT = "text"


class CertificateFrom(StrEnum):
    """The source of the serving certificate."""

    FILES = "files"
    SECRET = "secret"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one server."""

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


_SECONDS = number(0, 3600, "seconds")
OPTIONS: tuple[Option, ...] = (
    Option("cert", TEXT, "", "file with the serving certificate (PEM); read again when it changes"),
    Option("key", TEXT, "", "file with its private key (PEM)"),
    Option(
        "certificate_from",
        one_of(tuple(CertificateFrom), CertificateFrom),
        CertificateFrom.FILES,
        "files: those of --cert and --key; secret: the cluster's",
    ),
    Option("host", TEXT, "any", "address to listen on, such as 127.0.0.1 or ::1; any: all, of IPv4 and IPv6"),
    Option("port", PORT, str(names.WEBHOOK_PORT), "for the API server; 0 takes a free one and says which"),
    Option("metrics_port", PORT, str(names.METRICS_PORT), "for /metrics, without TLS; 0 takes a free one"),
    Option("namespace_file", TEXT, "", "YAML file of Namespaces to believe instead of a cluster's"),
    Option(
        "kubeconfig",
        TEXT,
        "",
        "kubeconfig of the cluster; by default KUBECONFIG, else the pod's service account, else ~/.kube/config",
    ),
    Option(
        "volumes",
        one_of(VOLUME_CHOICES, Volumes),
        Volumes.AUTO,
        "never: hook and socket come with the allocation alone",
    ),
    Option(
        "default_pod_security",
        one_of(tuple(PodSecurity), PodSecurity),
        PodSecurity.PRIVILEGED,
        "the cluster's level for namespaces without Pod Security's enforce label",
    ),
    Option("log_format", one_of(tuple(Format), Format), Format.JSON, "how a line of the log looks"),
    Option("connections", whole(16, 100_000), "4000", "open connections at most; the API server keeps idle ones"),
    Option("in_flight", whole(1, 100_000), "512", "reviews at once; beyond it 503 with Retry-After"),
    Option("handshake_seconds", _SECONDS, "5", "a TLS handshake that takes longer is dropped"),
    Option("body_seconds", _SECONDS, "10", "a request body that takes longer is refused"),
    Option("idle_seconds", whole(91, 3600), "120", "an idle connection is kept; the API server keeps them for 90 s"),
    Option("drain_seconds", _SECONDS, "5", "after SIGTERM: unready, but serving, until endpoints have forgotten us"),
    Option("stop_seconds", whole(1, 3600), "10", "after that: open connections get so long to finish"),
)
TABLE = Table(ENVIRONMENT_PREFIX, OPTIONS, StartError)


def read_settings(flags: Mapping[str, Any], environ: Mapping[str, str], file: Mapping[str, Any]) -> Settings:
    """Return the settings: a flag beats the environment, which beats the file."""
    return Settings(**TABLE.read(flags, environ, file))


def describe(settings: Settings) -> str:
    """Return `name=value` for each setting."""
    return TABLE.describe(vars(settings))
