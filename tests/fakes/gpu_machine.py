"""A machine with a software GPU of its own, for one test: its file, its processes, its record.

Only this module knows how programs are pointed at the libraries.  A `Client` is a child process in which functions of
the tests run one after another, with NVIDIA's own bindings on top of our driver.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import shutil
import subprocess
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import pytest

from testbed.gpu_record import Record

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("SIMGPU_BUILD", ROOT / "build" / "simgpu"))
P = ParamSpec("P")
R = TypeVar("R")


class ClientError(AssertionError):
    """A function that ran in a client raised; the text is its traceback."""


@dataclass(frozen=True)
class Machine:
    """Devices in a file of their own; `settings` are SIMGPU_ variables without the prefix, in small letters."""

    folder: Path
    devices: str = "1xT4-16GB"
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / "gpus"

    def environment(self, label: str | None = None, **more: str) -> dict[str, str]:
        """Return the environment that a program needs to use this machine's GPUs."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("SIMGPU_", "NVSHARE_"))}
        ours = {"SIMGPU_FILE": str(self.file), "SIMGPU_DEVICES": self.devices, "LD_LIBRARY_PATH": str(BUILD)}
        named = {f"SIMGPU_{key.upper()}": value for key, value in {**self.settings, **more}.items()}
        return {**clean, **ours, **named, **({"SIMGPU_LABEL": label} if label else {})}

    def start_burn(self, *arguments: str, label: str | None = None, **more: str) -> subprocess.Popen[str]:
        """Start the `burn` program."""
        return subprocess.Popen(
            [BUILD / "burn", *arguments], env=self.environment(label, **more), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def burn(self, *arguments: str, label: str | None = None, **more: str) -> str:
        """Run `burn`, which must succeed, and return what it printed."""
        program = self.start_burn(*arguments, label=label, **more)
        out, problem = program.communicate(timeout=120)
        assert program.returncode == 0, problem + out
        return out

    def tool(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the `simgpu` program."""
        return subprocess.run(
            [BUILD / "simgpu", *arguments], env=self.environment(), capture_output=True, text=True, timeout=60
        )

    def record(self) -> Record:
        return Record(self.file)

    def client(self, label: str | None = None, **more: str) -> Client:
        return Client(self.environment(label, **more))


def _serve(connection: Connection, environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        # once loaded, a later dlopen of the plain name finds it: no search path is needed
        ctypes.CDLL(str(BUILD / name), mode=ctypes.RTLD_GLOBAL)
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send((True, function(*arguments)))
        except BaseException:  # noqa: BLE001  it is told to the test, whatever it was
            connection.send((False, traceback.format_exc()))


class Client:
    """A process that uses the machine's GPUs; as a context manager it ends with the block."""

    def __init__(self, environment: dict[str, str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, environment), daemon=True)
        self.process.start()
        theirs.close()

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Begin a function in the client without waiting for it."""
        self._connection.send((function, arguments))

    def result(self, timeout: float = 60) -> Any:
        """Return the result of the function that was started last."""
        if not self._connection.poll(timeout):
            raise ClientError(f"nothing came back within {timeout} s")
        went_well, value = self._connection.recv()
        if not went_well:
            raise ClientError(value)
        return value

    def call(self, function: Callable[..., R], *arguments: Any) -> R:
        """Run a module-level function in the client and return its result."""
        self.start(function, *arguments)
        answer: R = self.result()
        return answer

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self.process.join(10)
        if self.process.is_alive():
            self.kill()


def in_own_process_namespace() -> list[str]:
    """Return a command prefix that makes a command process 1, as in a container; skip where this is impossible."""
    isolate = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if not shutil.which("unshare") or subprocess.run([*isolate, "true"], capture_output=True).returncode:
        pytest.skip("this user may not make process namespaces: who is who across containers is NOT tested")
    return isolate


def compile_and_run(source: str, folder: Path, *flags: str) -> str:
    """Build a C text against the libraries and return what it prints."""
    program, text = folder / "program", folder / "program.c"
    text.write_text(source)
    command = ["gcc", "-std=gnu11", "-O2", "-Wall", "-pthread", str(text), "-o", str(program), *flags]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout
