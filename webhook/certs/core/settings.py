"""The settings of the certificates: how long they live, how long a rotation waits, the names of the objects.

They are one frozen dataclass.  `certs/options.py` makes a flag, a variable and a key of a file from each field.
"""

from dataclasses import dataclass, field
from typing import TypeVar

from contract.words import names
from webhook.certs.core.errors import BadSetting

T = TypeVar("T")


def _setting(default: T, told: str) -> T:
    """Return a field with its sentence of `--help`."""
    chosen: T = field(default=default, metadata={"help": told})
    return chosen


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every wait and every name; a test or an operator in a hurry may change each."""

    namespace: str = _setting(names.SYSTEM_NAMESPACE, "where the Secret, the Lease and the Service are")
    secret: str = _setting("nvshare-webhook-tls", "the Secret that holds keys, certificates and the phase")
    service: str = _setting(
        "nvshare-webhook", "the Service that the API server calls; the certificate's name follows from it"
    )
    configuration: str = _setting("nvshare-webhook", "the name of both webhook configurations")
    lease: str = _setting("nvshare-webhook-certs", "the Lease that keeps two rotations apart")
    leaf_days: float = _setting(30, "how long a serving certificate is valid")
    leaf_renew_days: float = _setting(20, "a serving certificate with less left than this is renewed by the next run")
    authority_days: float = _setting(1825, "how long a CA is valid")
    authority_renew_days: float = _setting(365, "a CA with less left than this is replaced by the next run")
    urgent_hours: float = _setting(
        12, "a serving certificate with less left than this is renewed by the webhook itself: the CronJob did not"
    )
    # No API says when each API server has seen the change; Kubernetes' own tests wait 10 seconds.
    trust_seconds: float = _setting(
        60, "between both CAs standing in every configuration and the first certificate of the new one"
    )
    linger_seconds: float = _setting(
        90, "between the last replica's switch and the old CA's end: how long an API server keeps an idle connection"
    )
    patience_seconds: float = _setting(
        600, "how long a run waits for something that does not come before it says so and ends"
    )
    poll_seconds: float = _setting(1, "between two looks")
    dial_seconds: float = _setting(3, "how long a replica may take to show its certificate")
    lease_seconds: float = _setting(30, "how long a rotator that died keeps others out")
    watch_seconds: float = _setting(10, "how often the webhook looks after configurations and Secret besides its watch")

    @property
    def server_names(self) -> tuple[str, ...]:
        """The names in the serving certificate; the API server checks the first."""
        short = f"{self.service}.{self.namespace}.svc"
        return short, f"{short}.cluster.local", f"{self.service}.{self.namespace}", self.service


def check(settings: Settings) -> Settings:
    """Return the settings; raise BadSetting where two of them contradict each other."""
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
