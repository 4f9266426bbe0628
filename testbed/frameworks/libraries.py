"""The libraries that the stand-ins replace: one table.

The rule: a function that our C files do not define is generated from what the wheels ask for.  It launches a short
kernel where the library works on the device and its first argument is the handle (cuBLAS); everywhere else it refuses
with the library's own "not supported" and says so once on stderr.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Otherwise(Enum):
    """What a function does that is not written by hand."""

    REFUSE = "refuse"
    LAUNCH = "launch"


@dataclass(frozen=True, kw_only=True)
class Library:
    """One shared library of NVIDIA's, and how its stand-in is made."""

    soname: str
    prefixes: tuple[str, ...]
    """Functions whose names begin so belong to it; the longest prefix of all libraries wins."""
    node: str = ""
    """The version node of its symbols; empty where the original has none."""
    sources: tuple[str, ...] = ()
    """Our C files, below `src/`."""
    otherwise: Otherwise = Otherwise.REFUSE
    status: int = 1
    """The library's own "not supported"."""
    also: tuple[str, ...] = ()
    """Functions that a framework looks up by name at run time: no symbol table lists them."""


DRIVER = ("driver/driver.c", "driver/kernel.c", "math/status.c")
"""What every stand-in is linked with."""

LIBRARIES = (
    Library(
        soname="libcudart.so.13",
        node="libcudart.so.13",
        prefixes=("cuda", "__cuda"),
        sources=(
            "cudart/runtime.c",
            "cudart/device.c",
            "cudart/memory.c",
            "cudart/streams.c",
            "cudart/launch.c",
            "cudart/registered.c",
        ),
        status=801,
    ),
    Library(
        soname="libcublas.so.13",
        node="libcublas.so.13",
        prefixes=("cublas",),
        sources=("math/cublas.c",),
        otherwise=Otherwise.LAUNCH,
        status=15,
    ),
    Library(
        soname="libcublasLt.so.13",
        node="libcublasLt.so.13",
        prefixes=("cublasLt",),
        sources=("math/cublaslt.c",),
        status=15,
    ),
    Library(soname="libcudnn.so.9", node="libcudnn.so.9", prefixes=("cudnn",), sources=("math/cudnn.c",), status=3000),
    Library(
        soname="libnccl.so.2",
        prefixes=("nccl",),
        sources=(
            "nccl/shared.c",
            "nccl/reduce.c",
            "nccl/comm.c",
            "nccl/meeting.c",
            "nccl/collectives.c",
            "nccl/groups.c",
        ),
        status=5,
    ),
    Library(soname="libcufft.so.12", node="libcufft.so.12", prefixes=("cufft",), sources=("math/cufft.c",), status=16),
    Library(
        soname="libcurand.so.10", node="libcurand.so.10", prefixes=("curand",), sources=("math/curand.c",), status=203
    ),
    Library(
        soname="libcusparse.so.12",
        node="libcusparse.so.12",
        prefixes=("cusparse",),
        sources=("math/cusparse.c",),
        status=10,
    ),
    Library(soname="libcusparseLt.so.0", prefixes=("cusparseLt",), status=10),
    Library(
        soname="libcusolver.so.12",
        node="libcusolver.so.12",
        prefixes=("cusolver",),
        sources=("math/cusolver.c",),
        status=9,
    ),
    Library(soname="libcupti.so.13", node="libcupti.so.13", prefixes=("cupti",), sources=("math/cupti.c",), status=27),
    Library(soname="libcufile.so.0", prefixes=("cuFile",), status=5030),
    Library(soname="libnvshmem_host.so.3", node="NVSHMEM", prefixes=("nvshmem",), status=1),
)


def owner(symbol: str) -> Library | None:
    """Return the library that a function belongs to, by the longest prefix."""
    found = [(len(prefix), library) for library in LIBRARIES for prefix in _matching(library, symbol)]
    return max(found, key=lambda each: each[0])[1] if found else None


def _matching(library: Library, symbol: str) -> Iterator[str]:
    return (prefix for prefix in library.prefixes if symbol.startswith(prefix))
