"""A cluster made of values, with a clock of its own: the fake of `rotation.World`.

Replicas pick up a new Secret after a while, API servers a new bundle after a while.  At each moment that passes,
`check` tells what the creation of a pod would meet.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from webhook.certs.core import secret
from webhook.certs.core.errors import Conflict
from webhook.certs.core.phases import Seen, Step
from webhook.certs.core.rotation import Surroundings
from webhook.certs.core.secret import Bundle, Material
from webhook.certs.core.settings import Settings

SETTINGS = Settings(poll_seconds=1, trust_seconds=60, linger_seconds=90)
ENTRIES = ("mutate", "validate")
T = TypeVar("T")
START = datetime(2030, 1, 1, tzinfo=UTC)


class Killed(Exception):
    """The rotator dies here."""


@dataclass
class FakeWorld:
    """Secret, two configurations, two replicas, one API server that lags."""

    now: datetime = START
    data: dict[str, bytes] | None = None
    version: int = 0
    bundles: dict[str, Bundle] = field(default_factory=lambda: dict.fromkeys(ENTRIES, Bundle()))
    replicas: dict[str, bytes | str] = field(default_factory=lambda: {"10.0.0.1:8443": "", "10.0.0.2:8443": ""})
    replica_lag: float = 3
    server_lag: float = 20
    refused: list[str] = field(default_factory=list)
    guarded: bool = False
    """Whether from here on a refused pod is a failure."""
    log: list[str] = field(default_factory=list)
    held_by: str = ""
    half_published: bool = False
    """The next publication dies between the two configurations."""
    _history: list[tuple[datetime, dict[str, Bundle]]] = field(default_factory=list)
    _secret_history: list[tuple[datetime, dict[str, bytes] | None]] = field(default_factory=list)

    # ---------------------------------------------------------------- rotation.World
    def read(self, *, now: datetime) -> tuple[Material, str]:
        if self.data is None:
            return Material(), ""
        return secret.read(self.data, SETTINGS.server_names, now=now)[0], str(self.version)

    def write(self, parts: Material, version: str) -> None:
        if version != (str(self.version) if self.data is not None else ""):
            raise Conflict("another writer was faster")
        self.put(secret.write(parts))

    def see(self, *, dial: bool) -> Seen:
        return Seen(dict(self.bundles), dict(self.replicas) if dial else {})

    def publish(self, bundle: Bundle) -> None:
        for entry in ENTRIES:
            self._history.append((self.now, dict(self.bundles)))
            self.bundles[entry] = bundle
            if self.half_published:
                self.half_published = False
                raise Killed("between two configurations")

    def hold(self, *, now: datetime) -> str:  # noqa: ARG002  the Protocol names it
        return self.held_by

    def release(self) -> None:
        pass

    # ---------------------------------------------------------------- what happens besides
    def put(self, data: dict[str, bytes] | None) -> None:
        self._secret_history.append((self.now, self.data))
        self.data = data
        self.version += 1

    def pass_time(self, seconds: float) -> None:
        """Let time go by, second by second, and look at each whether a pod would be refused."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.now = min(end, self.now + timedelta(seconds=1))
            self._replicas_pick_up()
            self._check()

    def _replicas_pick_up(self) -> None:
        seen = self._as_of(self._secret_history, self.replica_lag, self.data)
        leaf = _serving(tuple(sorted((seen or {}).items())))
        if leaf is None:
            return  # a broken Secret: what is loaded is served on
        for name, found in self.replicas.items():
            if not (isinstance(found, str) and found):
                self.replicas[name] = leaf

    def _as_of(self, history: list[tuple[datetime, T]], lag: float, current: T) -> T:
        for moment, before in history:
            if moment > self.now - timedelta(seconds=lag):
                return before
        return current

    def _check(self) -> None:
        if not self.guarded:
            return
        for bundles in (self.bundles, self._as_of(self._history, self.server_lag, self.bundles)):
            for entry, bundle in bundles.items():
                for name, shown in self.replicas.items():
                    if isinstance(shown, bytes) and not trusts(bundle, shown, self.now):
                        self.refused.append(f"{self.now:%M:%S} {entry} does not trust {name}")

    def around(self, done: Callable[[Step], None] = lambda _: None) -> Surroundings:
        return Surroundings(now=lambda: self.now, sleep=self.pass_time, tell=self.log.append, done=done)


@lru_cache
def _serving(data: tuple[tuple[str, bytes], ...]) -> bytes | None:
    parts = secret.read(dict(data), SETTINGS.server_names, now=START)[0]
    return None if parts.serving is None else secret.to_der(parts.serving.certificate)


def trusts(bundle: Bundle, leaf: bytes, now: datetime) -> bool:
    """Tell whether a client with this bundle accepts this certificate (DER) at `now`."""
    return _is_valid(leaf, now) and any(_signed(leaf, der) and _is_valid(der, now) for der in bundle)


def _is_valid(der: bytes, now: datetime) -> bool:
    begins, ends = _validity(der)
    return begins <= now < ends


@lru_cache
def _validity(der: bytes) -> tuple[datetime, datetime]:
    certificate = x509.load_der_x509_certificate(der)
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


@lru_cache
def _signed(leaf: bytes, authority: bytes) -> bool:
    try:
        x509.load_der_x509_certificate(leaf).verify_directly_issued_by(x509.load_der_x509_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
