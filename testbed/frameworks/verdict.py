"""The judgement of a step: what its three runs said, beside what must hold.  Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from testbed.frameworks.table import Step

BUSY_NOISE = 0.5
"""Seconds by which a claim of busy time may be above the device's own record: an end is seen when a thread looks."""
BUSY_NOISE_SHARE = 0.05
"""The same for long runs, as a share of them: on a loaded machine the look comes late again and again."""
BUSY_RATIO = 1.25
QUIET_SECONDS = 0.15
"""Processes that share two processors differ by this much by themselves."""


class Setting(Enum):
    """How a step runs."""

    BARE = "bare"
    ALONE = "hooked alone"
    BESIDE = "hooked beside a competitor"


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one run of a step did."""

    setting: Setting
    facts: Mapping[str, object]
    """What the program told; empty where it ended without a word."""
    seconds: float
    """The program's own measured work."""
    hung: bool = False
    code: int = 0
    busy_said: float = 0.0
    """GPU seconds by the hook's own summary, over all processes."""
    busy_was: float | None = None
    """GPU seconds by the software GPU's record; None where there is none."""
    said: str = ""
    """All that its processes wrote."""

    @property
    def has_told(self) -> bool:
        return bool(self.facts) and not self.hung


@dataclass(frozen=True)
class Result:
    """A step and its runs."""

    step: Step
    runs: Mapping[Setting, Run]

    def ratio(self, setting: Setting) -> float | None:
        """Return how many times as long as bare it took."""
        run, bare = self.runs.get(setting), self.runs.get(Setting.BARE)
        if run is None or bare is None or not run.has_told or not bare.seconds:
            return None
        return run.seconds / bare.seconds

    def faults(self) -> list[str]:
        """List what is wrong; an empty list means that the step stands."""
        found = [fault for run in self.runs.values() for fault in _of_one(self.step, run)]
        bare = self.runs.get(Setting.BARE)
        if bare is None or not bare.has_told:
            return found
        for run in self.runs.values():
            found += [f"{run.setting.value}: {fault}" for fault in _differences(self.step, bare, run)]
        alone = self.ratio(Setting.ALONE)
        if alone is not None and alone > max(self.step.slowest, 1 + QUIET_SECONDS / bare.seconds):
            found.append(f"hooked alone: SLOW, {alone:.2f} times as long as bare")
        return found


def _of_one(step: Step, run: Run) -> Iterator[str]:
    where = run.setting.value
    if run.hung:
        yield f"{where}: HANGS, no end after {step.seconds:.0f} s"
        return
    if not run.facts:
        yield f"{where}: ended with code {run.code} and told nothing: {_last_line(run.said)}"
        return
    wanted = dict(step.expect) | (dict(step.hooked) if run.setting is not Setting.BARE else {})
    for name, value in wanted.items():
        if run.facts.get(name) != value:
            yield f"{where}: {name} is {run.facts.get(name, _raised(run))!r}, not {value!r}"
    if "raised" in run.facts and "raised" not in wanted and not wanted:
        yield f"{where}: {_raised(run)}"
    if run.setting is not Setting.BARE and step.says not in run.said:
        yield f"{where}: no word of {step.says!r}; the last line is: {_last_line(run.said)}"
    if run.busy_was is not None and run.busy_said > _most_busy(run.busy_was, run.seconds):
        yield f"{where}: says {run.busy_said:.2f} s of GPU time, the device's record says {run.busy_was:.2f} s"


def _most_busy(was: float, seconds: float) -> float:
    """Return the largest claim that the device's record bears out."""
    return was * BUSY_RATIO + BUSY_NOISE + seconds * BUSY_NOISE_SHARE


def _raised(run: Run) -> str:
    return f"{run.facts.get('raised')}: {run.facts.get('said')}"


def _last_line(said: str) -> str:
    lines = [line for line in said.strip().splitlines() if line.strip()]
    return lines[-1][:200] if lines else "not a word"


def _differences(step: Step, bare: Run, run: Run) -> Iterator[str]:
    if run is bare or not run.has_told or "raised" in step.hooked:
        return  # an exception that is expected ends the step before its facts
    for name in sorted(bare.facts.keys() | run.facts.keys()):
        if name not in step.hooked and bare.facts.get(name) != run.facts.get(name):
            yield f"{name} is {run.facts.get(name)!r}, bare {bare.facts.get(name)!r}"
