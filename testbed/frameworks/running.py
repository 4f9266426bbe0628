"""Run one step in one setting, in a process, a folder and a software GPU of its own."""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.frameworks import surroundings
from testbed.frameworks.surroundings import ROOT, STEP
from testbed.frameworks.table import Step
from testbed.frameworks.verdict import Result, Run, Setting
from testbed.frameworks.wheels import Wheels
from testbed.gpu_record import Record, busy_seconds

TOLD = re.compile(r"^STEP (\{.*\})$", re.MULTILINE)
SUMMARY = re.compile(r"^nvshare: gpu_seconds=([0-9.]+) ", re.MULTILINE)
KEPT = ("PATH", "HOME", "LANG", "TERM")


@dataclass(frozen=True)
class Bench:
    """Where the frameworks and the stand-ins lie."""

    wheels: Wheels
    standins: Path


def run_step(bench: Bench, step: Step, settings: tuple[Setting, ...] = tuple(Setting)) -> Result:
    """Run a step in each setting."""
    return Result(step, {setting: run_once(bench, step, setting) for setting in settings})


def run_once(bench: Bench, step: Step, setting: Setting) -> Run:
    """Run a step in one setting, whatever it does."""
    with tempfile.TemporaryDirectory(prefix="nvf-") as name:
        folder = Path(name)
        with _environment(folder, step, setting) as environ:
            code, said = _finish(bench, step, folder, environ)
        return _read(setting, folder, code, said)


@contextmanager
def _environment(folder: Path, step: Step, setting: Setting) -> Iterator[Mapping[str, str]]:
    """Yield the environment of the step's process; what it runs beside lives as long as the block."""
    gpu = surroundings.software_gpu(folder, step)
    if setting is Setting.BARE:
        yield {**gpu, "SIMGPU_LABEL": STEP}
        return
    with ExitStack() as ends:
        containers = ends.enter_context(surroundings.daemon(folder, step, gpu))
        if setting is Setting.BESIDE:
            devices = len(surroundings.uuids_of(gpu))
            ends.enter_context(surroundings.competitor(folder, {**gpu, **containers.competitor}, devices))
        yield {**gpu, **containers.step}


def _finish(bench: Bench, step: Step, folder: Path, environ: Mapping[str, str]) -> tuple[int | None, str]:
    """Run the program to its end; None in place of its code where it has none by its deadline."""
    kept = {key: os.environ[key] for key in KEPT if key in os.environ}
    libraries = f"{environ['LD_LIBRARY_PATH']}:{bench.standins}"
    whole = {
        **kept,
        **environ,
        **step.environ,
        "LD_LIBRARY_PATH": libraries,
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "OMP_NUM_THREADS": "1",
    }
    command = [str(bench.wheels.python), "-m", f"testbed.frameworks.steps.{step.program}", step.argument]
    log = folder / "step.log"
    with surroundings.running(command, log, whole) as process:
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(step.seconds)
        surroundings.kill_session(process)
    return code, log.read_text(errors="replace")


def _read(setting: Setting, folder: Path, code: int | None, said: str) -> Run:
    told = TOLD.findall(said)
    last: dict[str, Any] = json.loads(told[-1]) if told else {"facts": {}, "seconds": 0.0}
    return Run(
        setting=setting,
        facts=last["facts"],
        seconds=last["seconds"],
        hung=code is None,
        code=code or 0,
        busy_said=sum(map(float, SUMMARY.findall(said))),
        busy_was=_recorded(folder / "gpus") if setting is not Setting.BARE else 0.0,
        said=said,
    )


def _recorded(path: Path) -> float:
    """Return for how long the step's processes executed, by the software GPU's record."""
    record = Record(path)
    return sum(busy_seconds(record.intervals(card.index)).get(STEP, 0.0) for card in record.cards)
