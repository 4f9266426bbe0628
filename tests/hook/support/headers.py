"""NVIDIA's headers as the registry's wheels bring them: every function they declare, with its parameters.

Nothing of them is kept in the repository; they are read where pip has put them.
"""

import re
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

SITE = Path(sysconfig.get_paths()["purelib"])
FOLDERS = {"CUDA 12": SITE / "nvidia/cuda_runtime/include", "CUDA 13": SITE / "nvidia/cu13/include"}
_DECLARED = re.compile(r"\b(cu[A-Z]\w*)\s*\(([^()]*)\)\s*;")


@dataclass(frozen=True, slots=True)
class Declared:
    """A function of a header."""

    name: str
    parameters: str


def read_functions(folder: Path) -> dict[str, Declared]:
    """Return all functions that cuda.h declares, in every version."""
    source = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"
    ran = subprocess.run(
        ["gcc", "-E", "-P", f"-I{folder}", "-"], input=source, capture_output=True, text=True, check=True
    )
    flat = re.sub(r"\s+", " ", ran.stdout)
    found: dict[str, Declared] = {}
    for name, parameters in _DECLARED.findall(flat):
        found.setdefault(name, Declared(name, parameters.strip()))
    return found


def structures_with_a_stream(folder: Path) -> set[str]:
    """Return the structures that contain a stream, under every name they have."""
    text = re.sub(r"/\*.*?\*/", "", (folder / "cuda.h").read_text(), flags=re.DOTALL)
    bodies = re.findall(r"typedef struct \w+\s*\{((?:[^{}]|\{[^{}]*\})*)\}\s*(\w+)\s*;", text)
    found = {name for body, name in bodies if re.search(r"CUstream\s+\w+\s*;", body)}
    return found | {new for old, new in re.findall(r"typedef (\w+) (\w+);", text) if old in found}


def read_versions(folder: Path) -> dict[tuple[str, bool], set[int]]:
    """Return the versions at which cudaTypedefs.h says a name changed, by base name and per-thread default stream."""
    text = (folder / "cudaTypedefs.h").read_text()
    versions: dict[tuple[str, bool], set[int]] = {}
    for base, version, suffix in re.findall(r"\*PFN_(cu\w+?)_v(\d{4,5})(_ptsz|_ptds)?\)", text):
        versions.setdefault((base, bool(suffix)), set()).add(int(version))
    return versions
