"""Run one step in one setting, in a process, a folder and a software GPU of its own."""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from testbed.frameworks import surroundings
from testbed.frameworks.hardware import Hardware
from testbed.frameworks.surroundings import ROOT, STEP
from testbed.frameworks.table import Step
from testbed.frameworks.verdict import Result, Run, Setting

TOLD = re.compile(r"^STEP (\{.*\})$", re.MULTILINE)
SUMMARY = re.compile(r"^nvshare: gpu_seconds=([0-9.]+) ", re.MULTILINE)
KEPT = ("PATH", "HOME", "LANG", "TERM")


def run_step(hardware: Hardware, step: Step, settings: tuple[Setting, ...] = tuple(Setting)) -> Result:
    """Run a step in each setting."""
    return Result(step, {setting: run_once(hardware, step, setting) for setting in settings})


def run_once(hardware: Hardware, step: Step, setting: Setting) -> Run:
    """Run a step in one setting, whatever it does."""
    with tempfile.TemporaryDirectory(prefix="nvf-") as name:
        folder = Path(name)
        with _environment(hardware, folder, step, setting) as environ:
            code, said = _finish(hardware, step, folder, environ)
        return _read(hardware, setting, folder, code, said)


@contextmanager
def _environment(hardware: Hardware, folder: Path, step: Step, setting: Setting) -> Iterator[Mapping[str, str]]:
    """Yield the environment of the step's process; what it runs beside lives as long as the block."""
    gpu = hardware.environ(folder, step)
    if setting is Setting.BARE:
        yield {**gpu, "SIMGPU_LABEL": STEP}
        return
    uuids = hardware.uuids(gpu)
    with ExitStack() as ends:
        containers = ends.enter_context(surroundings.daemon(folder, step, gpu, uuids))
        if setting is Setting.BESIDE:
            command, log = hardware.competitor(len(uuids)), folder / "competitor.log"
            ends.enter_context(surroundings.running(command, log, {**_whole(folder, gpu), **containers.competitor}))
        yield {**gpu, **containers.step}


def _whole(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of a program: caches in the run's own folder, and a thread for each process."""
    kept = {key: os.environ[key] for key in KEPT if key in os.environ}
    own = {
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(folder),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "OMP_NUM_THREADS": "1",
    }
    return {**kept, **environ, **own}


def _finish(hardware: Hardware, step: Step, folder: Path, environ: Mapping[str, str]) -> tuple[int | None, str]:
    """Run the program to its end; None in place of its code where it has none by its deadline."""
    whole = {**_whole(folder, environ), **step.environ}
    command = [str(hardware.wheels.python), "-m", f"testbed.frameworks.steps.{step.program}", step.argument]
    log = folder / "step.log"
    with surroundings.running(command, log, whole) as process:
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(step.seconds)
        surroundings.kill_session(process)
    return code, log.read_text(errors="replace")


def _read(hardware: Hardware, setting: Setting, folder: Path, code: int | None, said: str) -> Run:
    told = TOLD.findall(said)
    last: dict[str, Any] = json.loads(told[-1]) if told else {"facts": {}, "seconds": 0.0}
    return Run(
        setting=setting,
        facts=last["facts"],
        seconds=last["seconds"],
        hung=code is None,
        code=code or 0,
        busy_said=sum(map(float, SUMMARY.findall(said))),
        busy_was=hardware.busy(folder, STEP) if setting is not Setting.BARE else None,
        said=said,
    )
