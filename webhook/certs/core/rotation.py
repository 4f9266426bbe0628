"""The loop of a rotation: look, ask `phases` for one step, do it, look again, until no step is left.

It knows the cluster only as a `World`, so that a test can kill it after any step.  The rule it owns: between two looks
it remembers only what was asked and how long it has waited.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from webhook.certs.core import issue
from webhook.certs.core.errors import Conflict, StandsStill, Unreachable
from webhook.certs.core.phases import Act, Asked, Seen, Step, decide
from webhook.certs.core.secret import Bundle, Material, Phase, is_current, unexpired
from webhook.certs.core.settings import Settings


class World(Protocol):
    """The cluster as a rotation sees it.  Every call may raise Unreachable; a call that writes may raise Conflict."""

    def read(self, *, now: datetime) -> tuple[Material, str]:
        """Return the usable parts of the Secret and its version; the version is empty where there is no Secret."""

    def write(self, material: Material, version: str) -> None:
        """Write the Secret if it still has that version."""

    def see(self, *, dial: bool) -> Seen:
        """Look which CAs the configurations trust and, with `dial`, which certificates the ready replicas serve."""

    def publish(self, bundle: Bundle) -> None:
        """Make every entry of the configurations trust exactly this bundle."""

    def hold(self, *, now: datetime) -> str:
        """Take or keep the Lease; return the name of another holder, or the empty text when we hold it."""

    def release(self) -> None:
        """Give the Lease up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The clock, the sleep and the output of a run."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], None]
    tell: Callable[[str], None]
    done: Callable[[Step], None] = lambda _: None
    """Called after each step; a drill ends the process here."""


def rotate(world: World, asked: Asked, settings: Settings, around: Surroundings) -> None:
    """Do what is asked, and finish what an earlier run began."""
    run = Rotation(world, settings, around, asked, around.now())
    try:
        while run.step().act is not Act.DONE:
            pass
    finally:
        world.release()


def mend(world: World, settings: Settings, around: Surroundings) -> float | None:
    """Go on until all is done (return None) or until a wait is needed (return its seconds)."""
    run = Rotation(world, settings, replace(around, sleep=lambda _: None), Asked.NOTHING, around.now())
    try:
        while (step := run.step()).act not in (Act.DONE, Act.WAIT):
            pass
    finally:
        world.release()
    return None if step.act is Act.DONE else step.seconds


@dataclass(slots=True)
class Rotation:
    """A run: what is still asked for, and when it made its last step."""

    world: World
    settings: Settings
    around: Surroundings
    asked: Asked
    moved_at: datetime
    told: str = ""

    def step(self) -> Step:
        """Look, do one step or wait until the next look, and return the step."""
        try:
            step = self._look_and_do()
        except (Conflict, Unreachable) as trouble:
            step = Step(Act.WAIT, str(trouble), seconds=self.settings.poll_seconds)
        self._say(step)
        if step.act is Act.WAIT:
            self._wait(step)
        elif step.act is not Act.DONE:
            self.moved_at = self.around.now()
            self.around.done(step)
        return step

    def _look_and_do(self) -> Step:
        now = self.around.now()
        other = self.world.hold(now=now)
        if other:
            return Step(Act.WAIT, f"{other} rotates the certificates just now", seconds=self.settings.poll_seconds)
        material, version = self.world.read(now=now)
        seen = self.world.see(dial=needs_dial(material, now))
        step = decide(material, seen, self.asked, now=now, settings=self.settings)
        if step.act is Act.PUBLISH:
            self.world.publish(step.bundle)
        elif step.act not in (Act.WAIT, Act.DONE):
            self.world.write(carry_out(step, material, seen, now=now, settings=self.settings), version)
        self.asked = _still_asked(self.asked, step, material)
        return step

    def _wait(self, step: Step) -> None:
        patience = timedelta(seconds=self.settings.patience_seconds)
        if not step.planned and self.around.now() - self.moved_at > patience:
            where = f" in phase {step.phase}" if step.phase else ""
            raise StandsStill(
                f"the rotation stands still{where}: {step.why}."
                " Every certificate that was trusted still is; remove the cause and run"
                " `nvshare-webhook certs rotate` again."
            )
        self.around.sleep(min(step.seconds, self.settings.lease_seconds / 3))

    def _say(self, step: Step) -> None:
        text = f"{step.act.name.lower()}: {step.why}"
        if text != self.told:
            self.around.tell(text)
            self.told = text


def _still_asked(asked: Asked, step: Step, material: Material) -> Asked:
    """Return what is still asked for: a change that is under way, or begins now, is the one that was asked for."""
    under_way = material.phase in (Phase.PUBLISH, Phase.TRUST) or bool(material.previous)
    satisfied = {
        Asked.AUTHORITY: under_way or step.act in (Act.START, Act.FOUND),
        Asked.LEAF: step.act in (Act.RENEW, Act.FOUND, Act.SWAP),
    }
    return Asked.NOTHING if satisfied.get(asked) else asked


def needs_dial(material: Material, now: datetime) -> bool:
    """Tell whether the next step may depend on the certificates that the replicas serve."""
    authority = material.authority
    return material.phase is not Phase.SETTLED or authority is None or not is_current(authority.certificate, now)


def carry_out(step: Step, material: Material, seen: Seen, *, now: datetime, settings: Settings) -> Material:
    """Return the parts of the Secret after a step."""
    if step.act in (Act.FOUND, Act.START):
        return _WRITERS[step.act](material, seen, now, settings)
    if step.act is Act.RENEW and material.authority is not None:
        return replace(material, serving=_leaf(material.authority, now, settings)).at(Phase.SERVE, now)
    if step.act is Act.SWAP:
        return _swap(material).at(Phase.SERVE, now)
    if step.act is Act.FINISH:
        return replace(material, previous=()).at(Phase.SETTLED, now)
    return material.at(step.phase or material.phase, now)


def _found(_: Material, __: Seen, now: datetime, settings: Settings) -> Material:
    authority = issue.new_authority(now=now, days=settings.authority_days)
    return Material(authority, _leaf(authority, now, settings), since=now)


def _start(material: Material, seen: Seen, now: datetime, settings: Settings) -> Material:
    authority = issue.new_authority(now=now, days=settings.authority_days)
    leaf = _leaf(authority, now, settings)
    trusted = Bundle().union(*seen.bundles.values())
    previous = material.previous if _usable(material, now) else unexpired(trusted, now)
    return replace(
        material, next_authority=authority, next_serving=leaf, previous=previous, phase=Phase.PUBLISH, since=now
    )


def _swap(material: Material) -> Material:
    old = () if material.authority is None else (material.authority.certificate,)
    return Material(material.next_authority, material.next_serving, previous=(*material.previous, *old))


def _usable(material: Material, now: datetime) -> bool:
    return material.authority is not None and is_current(material.authority.certificate, now)


def _leaf(authority: issue.Pair, now: datetime, settings: Settings) -> issue.Pair:
    return issue.new_leaf(authority, settings.server_names, now=now, days=settings.leaf_days)


_WRITERS = {Act.FOUND: _found, Act.START: _start}
