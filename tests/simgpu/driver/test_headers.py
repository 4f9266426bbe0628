"""Our one table of the driver API against NVIDIA's own headers, of CUDA 12 and of CUDA 13.

The headers come from the wheels and are only read here: names and versions of every typedef, every prototype (by the
compiler), the size and the offsets of every structure we declare, and the symbols that the built library exports.
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.gpu_machine import BUILD, ROOT, compile_and_run

SITE = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
HEADERS = {"12": SITE / "cuda_runtime" / "include", "13": SITE / "cu13" / "include"}
ABI = ROOT / "simgpu" / "src" / "driver" / "abi"
# in cudaProfiler.h, which the wheels' typedefs do not cover
ELSEWHERE = {"cuProfilerStart", "cuProfilerStop", "cuProfilerInitialize"}


@dataclass(frozen=True)
class Line:
    """One line of api.def."""

    kind: str
    symbol: str
    base: str
    version: int
    per_thread_version: int | None
    types: str

    @property
    def suffix(self) -> str:
        return {"PTSZ": "_ptsz", "PTDS": "_ptds"}.get(self.kind, "")


def table() -> list[Line]:
    text = re.sub(r"/\*.*?\*/", "", (ABI / "api.def").read_text(), flags=re.S)
    lines = []
    for kind, body in re.findall(r"^(API|PTSZ|PTDS|NONE)\((.*?)\) *$", text, flags=re.M | re.S):
        parts = [part.strip() for part in body.replace("\n", " ").split(",")]
        named = kind in ("PTSZ", "PTDS")
        types = re.sub(r"\s+", " ", ", ".join(parts[4 if named else 3 :]))
        lines.append(Line(kind, parts[0], parts[1], int(parts[2]), int(parts[3]) if named else None, types))
    return lines


def typedefs(cuda: str) -> set[tuple[str, int, str]]:
    text = re.sub(r"/\*.*?\*/", "", (HEADERS[cuda] / "cudaTypedefs.h").read_text(), flags=re.S)
    found = re.findall(r"\(CUDAAPI \*PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\)", text)
    return {(base, int(version), suffix) for base, version, suffix in found}


@pytest.mark.parametrize("cuda", ["12", "13"])
def test_every_function_of_the_header_stands_in_the_table_with_its_version(cuda: str) -> None:
    ours: set[tuple[str, int | None, str]] = {(line.base, line.version, "") for line in table()}
    ours |= {(line.base, line.per_thread_version, line.suffix) for line in table() if line.suffix}
    # a NONE line answers the same whatever stream 0 means
    absent = {line.base for line in table() if line.kind == "NONE"}

    missing = {entry for entry in typedefs(cuda) - ours if not (entry[2] and entry[0] in absent)}

    assert missing == set()


def test_the_table_names_nothing_that_no_header_knows() -> None:
    known = {base for cuda in HEADERS for base, _, _ in typedefs(cuda)} | ELSEWHERE

    assert {line.base for line in table()} - known == set()


@pytest.mark.parametrize("cuda", ["12", "13"])
def test_every_prototype_is_the_header_s(cuda: str, tmp_path: Path) -> None:
    known = typedefs(cuda)
    checks = [
        f"_Static_assert(__builtin_types_compatible_p(CUresult (*)({line.types}), "
        f'PFN_{line.base}_v{line.version}), "{line.symbol}");'
        for line in table()
        if line.kind != "NONE" and (line.base, line.version, "") in known
    ]
    source = "#include <cuda.h>\n#include <cudaTypedefs.h>\n" + "\n".join(checks) + "\nint main(void) { return 0; }"

    # old versions' typedefs are declared for the driver's own sources only
    compile_and_run(source, tmp_path, f"-I{HEADERS[cuda]}", "-D__CUDA_API_VERSION_INTERNAL")

    assert len(checks) > 300


def test_every_entry_point_is_exported() -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", BUILD / "libcuda.so.1"], capture_output=True, text=True, check=True
    )
    exported = {row.split()[-1] for row in listed.stdout.splitlines()}
    wanted = {line.symbol for line in table()} | {line.symbol + line.suffix for line in table()}

    assert wanted - exported == set()
    assert {name for name in exported if not name.startswith("cu")} == set()


def structures() -> dict[str, list[str]]:
    """Return every structure of cuda_types.h with its plain fields."""
    text = re.sub(r"/\*.*?\*/", "", (ABI / "cuda_types.h").read_text(), flags=re.S)
    found: dict[str, list[str]] = {}
    for body, name in re.findall(r"typedef (?:struct|union) \w+ \{\n(.*?)\n\}[^;\n]*?(\w+);", text, flags=re.S):
        fields: list[str] = []
        for row in re.findall(r"^    (?! )([\w *]+?[ *])((?:\*?\w+(?:\[\d+\])?(?:, )?)+);", body, flags=re.M):
            fields += [re.sub(r"[*\[].*|\]", "", part.strip().lstrip("*")) for part in row[1].split(",")]
        found[name] = [field for field in fields if not field.startswith(("reserved", "pad")) and field != "smCount"]
    return found


def layout(include: str, known: dict[str, list[str]], folder: Path, *flags: str) -> dict[str, str]:
    rows = []
    for name, fields in known.items():
        offsets = "".join(f'printf(" {f}=%zu", offsetof({name}, {f}));' for f in fields)
        rows.append(f'printf("{name} %zu", sizeof({name})); {offsets} puts("");')
    source = (
        f"#include <stddef.h>\n#include <stdio.h>\n{include}\nint main(void) {{\n" + "\n".join(rows) + "\nreturn 0; }"
    )
    out = compile_and_run(source, folder, *flags)
    return {row.split()[0]: row for row in out.splitlines()}


@pytest.mark.parametrize("cuda", ["12", "13"])
def test_every_structure_has_the_header_s_layout(cuda: str, tmp_path: Path) -> None:
    known = structures()

    ours = layout(f'#include "{ABI / "cuda_types.h"}"', known, tmp_path)
    theirs = layout("#include <cuda.h>", known, tmp_path, f"-I{HEADERS[cuda]}")

    assert ours == theirs
    assert len(ours) > 30
