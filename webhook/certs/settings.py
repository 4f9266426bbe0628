"""How long certificates live, how long a rotation waits, and what the cluster's objects are called.

One frozen dataclass, built once from flags; each flag is named after its field.
May import the contract and errors only.
"""

import argparse
from dataclasses import dataclass, fields

from contract import names
from webhook.certs.errors import BadSetting


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every wait and every name, so that a test or a hurried operator may change it."""

    namespace: str = names.SYSTEM_NAMESPACE
    """Where the Secret, the Lease and the Service are."""
    secret: str = "nvshare-webhook-tls"
    """The Secret that holds keys, certificates and the phase."""
    service: str = "nvshare-webhook"
    """The Service that the API server calls; the certificate's name follows from it."""
    configuration: str = "nvshare-webhook"
    """The name of both webhook configurations."""
    lease: str = "nvshare-webhook-certs"
    """The Lease that keeps two rotations apart."""
    leaf_days: float = 30
    """How long a serving certificate is valid."""
    leaf_renew_days: float = 20
    """A serving certificate with less left than this is renewed by the next run."""
    authority_days: float = 1825
    """How long a CA is valid."""
    authority_renew_days: float = 365
    """A CA with less left than this is replaced by the next run."""
    urgent_hours: float = 12
    """A serving certificate with less left than this is renewed by the webhook itself: the CronJob did not."""
    trust_seconds: float = 60
    """Between both CAs standing in every configuration and the first certificate of the new one: no API says when each
    API server has seen the change; Kubernetes' own tests wait 10."""
    linger_seconds: float = 90
    """Between the last replica's switch and the old CA's end: how long an API server keeps an idle connection."""
    patience_seconds: float = 600
    """How long a run waits for something that does not come before it says so and ends."""
    poll_seconds: float = 1
    """Between two looks."""
    dial_seconds: float = 3
    """How long a replica may take to show its certificate."""
    lease_seconds: float = 30
    """How long a rotator that died keeps others out."""
    watch_seconds: float = 10
    """How often the webhook looks after configurations and Secret besides its watch."""

    @property
    def server_names(self) -> tuple[str, ...]:
        """The names the serving certificate must carry; the first is the one the API server checks."""
        short = f"{self.service}.{self.namespace}.svc"
        return short, f"{short}.cluster.local", f"{self.service}.{self.namespace}", self.service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A flag a setting; its default is the field's."""
    for item in fields(Settings):
        kind = float if isinstance(item.default, int | float) else str
        flag = "--" + item.name.replace("_", "-")
        parser.add_argument(flag, type=kind, default=item.default, metavar=kind.__name__.upper())


def read(arguments: argparse.Namespace) -> Settings:
    """The settings in parsed flags."""
    settings = Settings(**{item.name: getattr(arguments, item.name) for item in fields(Settings)})
    for name in ("leaf_days", "authority_days", "poll_seconds", "dial_seconds", "lease_seconds", "watch_seconds"):
        if getattr(settings, name) <= 0:
            raise BadSetting(f"--{name.replace('_', '-')} must be more than 0: give a number of {name.split('_')[-1]}")
    if not settings.leaf_renew_days < settings.leaf_days or not settings.authority_renew_days < settings.authority_days:
        raise BadSetting(
            "a certificate must live longer than the time before its end at which it is renewed:"
            " raise --leaf-days or --authority-days"
        )
    if not settings.urgent_hours / 24 < min(settings.leaf_days, settings.authority_days):
        raise BadSetting(
            "a certificate must live longer than the hours before its end in which the webhook itself renews it:"
            " lower --urgent-hours, or raise --leaf-days or --authority-days"
        )
    return settings
