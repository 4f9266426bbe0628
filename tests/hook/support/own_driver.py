"""NVIDIA's own libcuda.so.1 bare and under the hook: what both answer, and what the library exports.

The library is fetched, never kept in the repository (testbed/libcuda).
There is no card here, so `cuInit` says 100.
"""

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hook.driver.generate import read_table
from testbed.libcuda.pins import Driver
from tests.hook.support.headers import FOLDERS, read_versions
from tests.hook.support.machine import DRIVER as SOFTWARE
from tests.hook.support.machine import HOOK, ROOT, compiled

FLAGS = 3
TABLE = ROOT / "hook" / "driver" / "functions.table"
_FORM = re.compile(r"(_v\d+)?(_ptsz|_ptds)?$")

_WITHOUT_MKNOD = ("setpriv", "--bounding-set=-mknod") if os.geteuid() == 0 else ()
"""NVIDIA's driver makes /dev/nvidiactl where it may, and nobody would remove it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What cuGetProcAddress said, and the function as an offset into libcuda.so.1 (0: none)."""

    result: int
    status: int
    offset: int
    of_hook: bool = field(compare=False)


Question = tuple[str, int, int]
"""Base name, version, flags."""


def _run(*words: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    dropped = ("NVSHARE_", "LD_", "CUDA_", "SIMGPU_")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    program = compiled("own_driver", "-Wl,--as-needed")
    command = [*_WITHOUT_MKNOD, program, *words]
    return subprocess.run(command, env=clean | more, capture_output=True, text=True, timeout=120)


def _read(lines: str, exported: dict[str, int], *, by_name: bool = False) -> dict[Question, Answer]:
    found: dict[Question, Answer] = {}
    for row in lines.splitlines():
        base, version, flags, result, status, library, symbol, offset = row.split()
        of_hook = library == "libnvshare.so"
        # a wrapper stands for the function whose name it has
        named = (of_hook or by_name) and library != "nothing"
        at = exported.get(symbol, -1) if named else int(offset)
        found[base, int(version), int(flags)] = Answer(int(result), int(status), at, of_hook)
    return found


@dataclass(frozen=True)
class OwnDriver:
    driver: Driver
    folder: Path

    def run(self, *words: str | Path, hooked: bool, hook: Path = HOOK) -> subprocess.CompletedProcess[str]:
        preload = {"LD_PRELOAD": str(hook)} if hooked else {}
        return _run(*words, LD_LIBRARY_PATH=str(self.folder), NVSHARE_SOCKETS="/nonexistent", **preload)

    def exported(self) -> dict[str, int]:
        """Return every cu… symbol that the library exports, with its offset."""
        listed = subprocess.run(
            ["nm", "-D", "--defined-only", self.folder / "libcuda.so.1"], capture_output=True, text=True, check=True
        )
        rows = (row.split() for row in listed.stdout.splitlines())
        return {name.partition("@")[0]: int(offset, 16) for offset, _, name in rows if name.startswith("cu")}

    def answers(self, names: Path, *, hooked: bool, hook: Path = HOOK) -> dict[Question, Answer]:
        """Ask for every name, at every version that any function has, with every flag."""
        ran = self.run("look-ups", names, *map(str, versions()), hooked=hooked, hook=hook)
        assert ran.returncode == 0, ran.stderr[-2000:]
        return _read(ran.stdout, self.exported())

    def software_answers(self, names: Path) -> dict[Question, Answer]:
        """Ask the software GPU's driver the same, as one of this version; a function is known by its name."""
        version = {"SIMGPU_DRIVER_VERSION": str(self.driver.cuda)}
        ran = _run("look-ups", names, *map(str, versions()), LD_LIBRARY_PATH=str(SOFTWARE), **version)
        assert ran.returncode == 0, ran.stderr[-2000:]
        return _read(ran.stdout, self.exported(), by_name=True)


def bases() -> list[str]:
    """Return every name that the headers of CUDA 12 and 13 know."""
    return sorted({base for folder in FOLDERS.values() for base, _ in read_versions(folder)})


def versions() -> list[int]:
    """Return every version at which some function changed."""
    return sorted({one for folder in FOLDERS.values() for known in read_versions(folder).values() for one in known})


@dataclass(frozen=True)
class Compared:
    """The answers of all questions, bare and under the hook."""

    own: OwnDriver
    bare: dict[Question, Answer]
    hooked: dict[Question, Answer]

    def differing(self) -> list[Question]:
        """Return each question that the hook answers otherwise than the driver, wrapped or not."""
        return [question for question, answer in self.bare.items() if answer != self.hooked[question]]

    def escaped(self) -> list[Question]:
        """Return each question whose answer is a function that the hook wraps, but not the wrapper."""
        exported = self.own.exported()
        ours = {exported[symbol] for symbol in wrapped() if symbol in exported}
        return [question for question, answer in self.hooked.items() if answer.offset in ours and not answer.of_hook]

    def is_known(self, question: Question) -> bool:
        """Say whether an older driver was asked for a form that is newer than it.

        Drivers before 580 answer such a question with their newest form.
        The hook takes the form that the caller means.
        The driver's own answer would not fit the caller's parameters either.
        """
        base, version, _ = question
        return base == "cuGraphAddNode" and version > self.own.driver.cuda


def compare(own: OwnDriver, folder: Path, hook: Path = HOOK) -> Compared:
    """Ask the driver bare and under the hook."""
    names = folder / "names"
    names.write_text("\n".join(bases()))
    bare, hooked = own.answers(names, hooked=False), own.answers(names, hooked=True, hook=hook)
    assert bare.keys() == hooked.keys()
    return Compared(own, bare, hooked)


def wrapped() -> dict[str, int]:
    """Return every function that the hook wraps, with the version that it is of."""
    table = read_table(TABLE.read_text())
    return {one.symbol: one.since for one in table if one.kind != "use" and not one.symbol.startswith("nvml")}


def forms_by_base(symbols: set[str]) -> dict[str, set[str]]:
    grouped: dict[str, set[str]] = defaultdict(set)
    for symbol in symbols:
        grouped[_FORM.sub("", symbol)].add(symbol)
    return grouped


def unknown_forms(own: OwnDriver) -> Iterator[str]:
    """Yield each exported form of a wrapped function that the hook's table does not know."""
    known = set(re.findall(r"\bcu[A-Z]\w+", TABLE.read_text()))
    ours, theirs = forms_by_base(set(wrapped())), forms_by_base(set(own.exported()))
    for base in sorted(ours.keys() & theirs.keys()):
        yield from sorted(theirs[base] - known)
