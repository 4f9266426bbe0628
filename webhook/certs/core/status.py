"""The report of `certs status`: the end of each certificate, the phase, which replica serves what, which CA is trusted.

It is pure: what was seen goes in, a report comes out.
"""

from dataclasses import asdict, dataclass
from datetime import datetime

from webhook.certs.core.issue import Pair
from webhook.certs.core.phases import Seen, needs_repair
from webhook.certs.core.secret import Material, Phase, ends_at, to_der
from webhook.certs.core.settings import Settings


@dataclass(frozen=True, slots=True)
class Report:
    """The state of the certificates; `troubles` is empty when all is well."""

    phase: str
    since: str | None
    serving_ends: str | None
    serving_days_left: float | None
    authority_ends: str | None
    authority_days_left: float | None
    configurations: dict[str, str]
    replicas: dict[str, str]
    troubles: list[str]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def lines(self) -> list[str]:
        """Return the report as lines for people."""
        since = f" since {self.since}" if self.since else ""
        return [
            f"phase          {self.phase}{since}",
            f"serving        {_until(self.serving_ends, self.serving_days_left)}",
            f"CA             {_until(self.authority_ends, self.authority_days_left)}",
            *(f"configuration  {name}: {what}" for name, what in self.configurations.items()),
            *(f"replica        {name}: {what}" for name, what in self.replicas.items()),
            *(f"trouble        {trouble}" for trouble in self.troubles),
        ]


def report(parts: Material, faults: tuple[str, ...], seen: Seen, *, now: datetime, settings: Settings) -> Report:
    """Make the report."""
    trouble = needs_repair(parts, seen, now=now, settings=settings)
    configurations = {
        name: "trusts the CA" if parts.trusted() <= trusted else "does not trust the CA"
        for name, trusted in sorted(seen.bundles.items())
    }
    replicas = {name: _serves(found, parts) for name, found in sorted(seen.served.items())}
    return Report(
        phase=parts.phase,
        since=parts.since.isoformat() if parts.since and parts.phase is not Phase.SETTLED else None,
        serving_ends=_ends(parts.serving),
        serving_days_left=_days_left(parts.serving, now),
        authority_ends=_ends(parts.authority),
        authority_days_left=_days_left(parts.authority, now),
        configurations=configurations,
        replicas=replicas,
        troubles=[*faults, *([trouble] if trouble else []), *_outside(seen, replicas)],
    )


def _outside(seen: Seen, replicas: dict[str, str]) -> list[str]:
    troubles = [f"replica {name} {what}" for name, what in replicas.items() if what != _RIGHT]
    if not seen.bundles:
        troubles.append("there are no webhook configurations: kubectl apply -k manifests/base")
    if not seen.served:
        troubles.append("no replica of the webhook is ready: kubectl -n nvshare-system describe pods")
    return troubles


_RIGHT = "serves the certificate"


def _serves(found: bytes | str, parts: Material) -> str:
    if isinstance(found, str):
        return found
    wanted = to_der(parts.serving.certificate) if parts.serving else b""
    return _RIGHT if found == wanted else "serves another certificate"


def _ends(pair: Pair | None) -> str | None:
    return None if pair is None else ends_at(pair.certificate).isoformat()


def _days_left(pair: Pair | None, now: datetime) -> float | None:
    return None if pair is None else round((ends_at(pair.certificate) - now).total_seconds() / 86400, 2)


def _until(ends: str | None, days: float | None) -> str:
    return "none" if ends is None else f"until {ends} ({days} days)"
