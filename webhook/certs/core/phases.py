"""The next step of a rotation.  It is pure: what was seen goes in, one step comes out; the clock is an argument.

The rule it owns: no replica is told to serve a certificate before every configuration trusts its CA, and no CA is
dropped before every ready replica serves a certificate of another CA.  Each step leaves the Secret in a state from
which the next run goes on, so no other memory is needed.

    settled -> publish   the next CA and certificate are in the Secret; no replica serves them
    publish -> trust     both CAs stand in every configuration
    trust   -> serve     `trust_seconds` later the new certificate takes the old one's place
    serve   -> linger    every ready replica was dialled and serves it
    linger  -> retire    `linger_seconds` later every replica was dialled again
    retire  -> settled   the old CA stands in no configuration

A new serving certificate under the same CA goes settled -> serve -> settled.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum

from webhook.certs.core.secret import Bundle, Material, Phase, ends_at, is_current, to_der, unexpired
from webhook.certs.core.settings import Settings


class Asked(StrEnum):
    """The change that a run was asked for."""

    NOTHING = "nothing"
    """Finish what was begun, and repair what is broken."""
    DUE = "due"
    """The same, and renew what is near its end."""
    LEAF = "leaf"
    AUTHORITY = "authority"


class Act(Enum):
    """The effect of a step."""

    FOUND = "issue a CA and a serving certificate; no CA was trusted before"
    START = "issue the next CA and certificate beside the present ones"
    RENEW = "issue a serving certificate under the present CA"
    PUBLISH = "write the trusted CAs into every configuration"
    SWAP = "serve the next certificate"
    MARK = "note the phase"
    FINISH = "forget the old CA"
    WAIT = "look again later"
    DONE = "nothing to do"


@dataclass(frozen=True, slots=True)
class Seen:
    """The state outside the Secret."""

    bundles: Mapping[str, Bundle] = field(default_factory=dict)
    """The CAs that each entry of the configurations trusts."""
    served: Mapping[str, bytes | str] = field(default_factory=dict)
    """The certificate that each ready replica serves, as DER, or a text that says why it could not be seen."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step, and the sentence that explains it."""

    act: Act
    why: str
    phase: Phase | None = None
    bundle: Bundle = field(default_factory=Bundle)
    seconds: float = 0.0
    planned: bool = False
    """The end of the wait is known, so it does not count against `patience_seconds`."""


def decide(material: Material, seen: Seen, asked: Asked, *, now: datetime, settings: Settings) -> Step:
    """Return the next step."""
    return _Decision(material, seen, asked, now, settings).step()


@dataclass(frozen=True, slots=True)
class _Decision:
    material: Material
    seen: Seen
    asked: Asked
    now: datetime
    settings: Settings

    def step(self) -> Step:
        if self.material.phase in (Phase.PUBLISH, Phase.TRUST):
            return self._distribute()
        return self._repair() or _PHASES[self.material.phase](self)

    # ---------------------------------------------------------------- before the new certificate is served
    def _distribute(self) -> Step:
        missing = self._missing(self.material.trusted())
        if missing:
            return missing
        if self.material.phase is Phase.PUBLISH or self.material.since is None:
            return self._mark(Phase.TRUST, "every configuration trusts the old CA and the next")
        if self._somebody_is_trusted():
            left = self._left(self.settings.trust_seconds)
            if left > 0:
                return self._wait(left, "the API servers take up the trust in both CAs", planned=True)
        return Step(Act.SWAP, "the next certificate takes its place: every configuration trusts its CA", Phase.SERVE)

    # ---------------------------------------------------------------- what is broken comes first
    def _repair(self) -> Step | None:
        authority, serving = self.material.authority, self.material.serving
        if authority is None or not is_current(authority.certificate, self.now):
            return self._replace_authority()
        if serving is None or not is_current(serving.certificate, self.now):
            return self._missing(self.material.trusted()) or self._renew("there is no usable serving certificate")
        return None

    def _replace_authority(self) -> Step:
        if self._somebody_is_trusted():
            return Step(Act.START, "there is no usable CA, but replicas serve what is trusted", Phase.PUBLISH)
        return Step(Act.FOUND, "there is no usable CA, and no replica serves what is trusted", Phase.SETTLED)

    # ---------------------------------------------------------------- the other phases
    def _serve(self) -> Step:
        missing = self._missing(self.material.trusted())
        if missing or self._is_due():
            return missing or self._renew("the serving certificate nears its end")
        behind = self._behind()
        if behind:
            return self._wait(self.settings.poll_seconds, behind)
        if self.material.previous:
            return self._mark(Phase.LINGER, "every ready replica serves the new certificate")
        return self._mark(Phase.SETTLED, "every ready replica serves the certificate")

    def _linger(self) -> Step:
        first = self._back_to_serve() or self._missing(self.material.trusted())
        if first:
            return first
        if self.material.since is None:
            return self._mark(Phase.LINGER, "the wait begins anew: when it began is not known")
        left = self._left(self.settings.linger_seconds)
        if left > 0:
            return self._wait(left, "idle connections of the API servers run out", planned=True)
        return self._mark(Phase.RETIRE, "every replica was seen twice with the new certificate")

    def _retire(self) -> Step:
        return (
            self._back_to_serve()
            or self._exactly(self.material.trusted())
            or Step(Act.FINISH, "the old CA is trusted nowhere", Phase.SETTLED)
        )

    def _settled(self) -> Step:
        wrong = self._exactly(self.material.trusted())
        if wrong:
            return wrong
        if self.asked is Asked.AUTHORITY or self._authority_is_due():
            return Step(Act.START, "the CA is to be replaced", Phase.PUBLISH)
        if self.asked is Asked.LEAF or self._is_due():
            return self._renew("the serving certificate is to be renewed")
        return Step(Act.DONE, "nothing is due")

    # ---------------------------------------------------------------- what the sentences above ask
    def _missing(self, wanted: Bundle) -> Step | None:
        short = [entry for entry, bundle in self.seen.bundles.items() if not wanted <= bundle]
        return self._publish(wanted, short, "does not trust") if short else None

    def _exactly(self, wanted: Bundle) -> Step | None:
        other = [entry for entry, bundle in self.seen.bundles.items() if wanted != bundle]
        return self._publish(wanted, other, "trusts other CAs than") if other else None

    def _publish(self, wanted: Bundle, entries: list[str], how: str) -> Step:
        return Step(Act.PUBLISH, f"{', '.join(sorted(entries))} {how} what is wanted", bundle=wanted)

    def _back_to_serve(self) -> Step | None:
        behind = self._behind()
        return self._mark(Phase.SERVE, f"not every replica serves the new certificate: {behind}") if behind else None

    def _behind(self) -> str:
        """Name the replicas that do not serve the certificate of the Secret; return the empty text where all do."""
        if not self.seen.served:
            return "no replica of the webhook is ready: see its pods' events and logs"
        wanted = to_der(self.material.serving.certificate) if self.material.serving else b""
        return "; ".join(
            f"{endpoint} {found if isinstance(found, str) else 'serves another certificate'}"
            for endpoint, found in sorted(self.seen.served.items())
            if found != wanted
        )

    def _somebody_is_trusted(self) -> bool:
        """Tell whether a change could break what works now: some entry trusts a CA, and some replica answers."""
        answers = any(isinstance(found, bytes) for found in self.seen.served.values())
        return answers and any(unexpired(bundle, self.now) for bundle in self.seen.bundles.values())

    def _is_due(self) -> bool:
        days = {Asked.NOTHING: self.settings.urgent_hours / 24}.get(self.asked, self.settings.leaf_renew_days)
        serving, authority = self.material.serving, self.material.authority
        if serving is None or authority is None:
            return True
        at_most = ends_at(authority.certificate)
        return self._ends_within(serving.certificate, days) and ends_at(serving.certificate) < at_most

    def _authority_is_due(self) -> bool:
        """Tell whether the CA must be replaced; in its last hours even unasked, since no certificate outlives it."""
        days = {Asked.DUE: self.settings.authority_renew_days}.get(self.asked, self.settings.urgent_hours / 24)
        authority = self.material.authority
        return authority is not None and self._ends_within(authority.certificate, days)

    def _ends_within(self, certificate: bytes, days: float) -> bool:
        return ends_at(certificate) - self.now < timedelta(days=days)

    def _left(self, seconds: float) -> float:
        began = self.material.since or self.now
        return seconds - (self.now - began).total_seconds()

    def _renew(self, why: str) -> Step:
        return Step(Act.RENEW, why, Phase.SERVE)

    def _mark(self, phase: Phase, why: str) -> Step:
        return Step(Act.MARK, why, phase)

    def _wait(self, seconds: float, why: str, *, planned: bool = False) -> Step:
        return Step(Act.WAIT, why, self.material.phase, seconds=seconds, planned=planned)


_PHASES = {
    Phase.SERVE: _Decision._serve,
    Phase.LINGER: _Decision._linger,
    Phase.RETIRE: _Decision._retire,
    Phase.SETTLED: _Decision._settled,
}


def needs_repair(material: Material, seen: Seen, *, now: datetime, settings: Settings) -> str:
    """Return why the webhook itself must repair at once; the empty text where the CronJob comes early enough."""
    authority, serving = material.authority, material.serving
    if serving is None or not is_current(serving.certificate, now):
        return "there is no usable serving certificate"
    if authority is None or not is_current(authority.certificate, now):
        return "there is no usable CA"
    if ends_at(serving.certificate) - now < timedelta(hours=settings.urgent_hours):
        return "the serving certificate is about to end"
    if any(not material.trusted() <= bundle for bundle in seen.bundles.values()):
        return "a configuration does not trust the CA"
    if material.phase is not Phase.SETTLED and _is_abandoned(material, now, settings):
        return f"a rotation was left in phase {material.phase}"
    return ""


def _is_abandoned(material: Material, now: datetime, settings: Settings) -> bool:
    patience = 2 * max(settings.patience_seconds, settings.trust_seconds, settings.linger_seconds)
    return material.since is None or now - material.since > timedelta(seconds=patience)
