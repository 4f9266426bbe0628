"""The table that `make frameworks` prints: one line a step, and below it each fault."""

from testbed.frameworks.verdict import Result, Setting

HEAD = f"  {'':<6} {'step':<42} {'bare':>8} {'alone':>8} {'ratio':>6} {'beside':>8} {'ratio':>6}"


def lines(result: Result) -> list[str]:
    """Return the line of a step, and one line a fault."""
    faults = result.faults()
    verdict = "FAILED" if faults else "ok"
    cells = "".join(_cell(result, setting) for setting in Setting)
    return [f"  {verdict:<6} {result.step.name:<42}{cells}", *(f"         {fault}" for fault in faults)]


def _cell(result: Result, setting: Setting) -> str:
    run = result.runs.get(setting)
    if run is None:
        return ""
    shown = f" {run.seconds:>6.2f} s" if run.has_told else f" {'hangs' if run.hung else 'nothing':>8}"
    if setting is Setting.BARE:
        return shown
    ratio = result.ratio(setting)
    return shown + (f" {ratio:>6.2f}" if ratio is not None else f" {'-':>6}")
