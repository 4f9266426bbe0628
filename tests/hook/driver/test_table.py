"""functions.table against NVIDIA's own headers of CUDA 12 and 13, and the library against the table."""

import fnmatch
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hook.driver.generate import Function, read_patterns, read_table
from tests.hook.support.headers import FOLDERS, read_functions, read_versions, structures_with_a_stream
from tests.hook.support.machine import HOOK, ROOT

TABLE = (ROOT / "hook" / "driver" / "functions.table").read_text()
FUNCTIONS = [one for one in read_table(TABLE) if not one.symbol.startswith("nvml")]
EXEMPT = dict(re.findall(r"^exempt (\S+): (.+)$", TABLE, re.MULTILINE))
ALLOCATES = re.compile(
    r"cu(Mem|Array|Mipmapped|Graph|External|Multicast|Ctx|Green|Module|Library|Link|Stream|Event|Tex|Surf|Ipc|Import|Device|Logical)"
    r"\w*(Alloc|Create|Malloc|Import|Open|Load|Register|Reserve|Map)"
)
STREAMLESS_WORK = re.compile(r"cu(Launch|Memcpy|Memset|MemPrefetch|MemDiscard|GraphLaunch|GraphUpload)")


def concerns_us(name: str, parameters: str, with_stream: set[str]) -> bool:
    """Tell by name and parameters whether a function takes a stream, puts work on a GPU, or allocates."""
    takes_stream = not with_stream.isdisjoint(re.findall(r"\w+", parameters))
    return takes_stream or bool(ALLOCATES.match(name) or STREAMLESS_WORK.match(name))


def is_exempt(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in EXEMPT)


@pytest.mark.parametrize("version", FOLDERS)
def test_every_function_that_concerns_us_is_wrapped_or_exempt_with_a_reason(version: str) -> None:
    known = {one.symbol for one in FUNCTIONS if one.kind != "use"}
    with_stream = {"CUstream"} | structures_with_a_stream(FOLDERS[version])
    assert "CUDA_GRAPH_INSTANTIATE_PARAMS" in with_stream
    missing = [
        name
        for name, declared in read_functions(FOLDERS[version]).items()
        if concerns_us(name, declared.parameters, with_stream) and name not in known and not is_exempt(name)
    ]

    assert not missing


def test_no_exemption_is_without_use_and_none_hides_a_wrapped_function() -> None:
    names = {name for folder in FOLDERS.values() for name in read_functions(folder)}
    wrapped = {one.symbol for one in FUNCTIONS if one.kind != "use"}

    assert not [pattern for pattern in EXEMPT if not fnmatch.filter(names, pattern)]
    assert not [(pattern, name) for pattern in EXEMPT for name in fnmatch.filter(wrapped, pattern)]


@pytest.mark.parametrize("version", FOLDERS)
def test_nothing_of_nvidia_s_headers_is_told_of_as_unknown(version: str) -> None:
    known = {name for one in read_table(TABLE) for name in (one.symbol, one.base)}
    risks = read_patterns(TABLE, "risk")
    told = [
        name
        for name in read_functions(FOLDERS[version])
        if any(fnmatch.fnmatchcase(name, risk) for risk in risks) and name not in known and not is_exempt(name)
    ]

    assert not told
    assert all(fnmatch.filter(known, risk) for risk in risks), "each family has a member that is wrapped"


def test_functions_that_the_table_says_are_used_are_called() -> None:
    code = "".join(path.read_text() for path in (ROOT / "hook").rglob("*.[ch]"))
    called = set(re.findall(r"\bdriver\.(\w+)", code))

    assert not [one.symbol for one in read_table(TABLE) if one.kind == "use" and one.symbol not in called]


@pytest.mark.parametrize("version", FOLDERS)
def test_every_prototype_is_nvidia_s(version: str, tmp_path: Path) -> None:
    # The compiler decides: a pointer of our type takes the address of their function.
    declared = read_functions(FOLDERS[version])
    lines = ["#define __CUDA_API_VERSION_INTERNAL", "#include <cuda.h>"]
    lines += [f"CUresult (*const check_{one.symbol})({one.parameters}) = {one.symbol};" for one in _of(declared)]
    source = tmp_path / "check.c"
    source.write_text("\n".join(lines))

    subprocess.run(
        ["gcc", "-fsyntax-only", "-Werror", "-Wno-deprecated-declarations", f"-I{FOLDERS[version]}", source], check=True
    )
    assert len(_of(declared)) > 0.8 * len(FUNCTIONS)


def _of(declared: Mapping[str, object]) -> list[Function]:
    return [one for one in FUNCTIONS if one.symbol in declared]


@pytest.mark.parametrize("version", FOLDERS)
def test_every_version_is_one_at_which_the_name_changed(version: str) -> None:
    versions = read_versions(FOLDERS[version])
    wrong = [
        (one.symbol, one.since, sorted(versions[one.base, one.is_per_thread]))
        for one in FUNCTIONS
        if (one.base, one.is_per_thread) in versions
        and one.since not in versions[one.base, one.is_per_thread]
        and max(versions[one.base, one.is_per_thread]) >= one.since
    ]

    assert not wrong


@pytest.mark.parametrize("version", FOLDERS)
def test_our_structures_are_laid_out_as_nvidia_s(version: str, tmp_path: Path) -> None:
    # Sizes and offsets of the fields that the hook reads, measured with each set of headers.
    probes = {
        "CUlaunchConfig": ("hStream", "numAttrs"),
        "CUDA_LAUNCH_PARAMS": ("hStream", "kernelParams"),
        "CUDA_ARRAY_DESCRIPTOR": ("Format", "NumChannels"),
        "CUDA_ARRAY_DESCRIPTOR_v1": ("Format", "NumChannels"),
        "CUDA_ARRAY3D_DESCRIPTOR": ("Depth", "Flags"),
        "CUDA_ARRAY3D_DESCRIPTOR_v1": ("Depth", "Flags"),
        "CUmemAllocationProp": ("location",),
        "CUmemPoolProps": ("location",),
        "CUDA_GRAPH_INSTANTIATE_PARAMS": ("flags", "hUploadStream"),
        "CUDA_MEM_ALLOC_NODE_PARAMS": ("bytesize", "dptr"),
        "CUgraphNodeParams": ("type", "alloc"),
        "CUmemLocation": ("type", "id"),
    }
    rows = [f'printf("%zu\\n", offsetof({name}, {field}));' for name, fields in probes.items() for field in fields]
    ours, theirs = (
        _printed(
            tmp_path / name,
            f"#include <stdio.h>\n#include <stddef.h>\n#include {header}\nint main(void){{{' '.join(rows)}}}",
            folder,
        )
        for name, header, folder in (
            ("ours", '"driver/abi.h"', ROOT / "hook"),
            ("theirs", "<cuda.h>", FOLDERS[version]),
        )
    )

    assert ours == theirs


def _printed(program: Path, source: str, include: Path) -> str:
    source_path = program.with_suffix(".c")
    source_path.write_text("#define __CUDA_API_VERSION_INTERNAL\n" + source)
    subprocess.run(["gcc", f"-I{include}", "-o", program, source_path], check=True)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def test_the_library_exports_what_it_wraps_and_nothing_else() -> None:
    listed = subprocess.run(["nm", "-D", "--defined-only", HOOK], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
    wrapped = {one.symbol for one in read_table(TABLE) if one.kind != "use"}

    assert exported == wrapped | {"dlopen", "dlsym", "dlvsym"}


@pytest.mark.parametrize("name", ["dlopen", "dlsym", "dlvsym"])
def test_the_c_library_s_function_is_jumped_to(name: str) -> None:
    # RTLD_NEXT and search paths go by the caller's address: a call in between would make us the caller.
    words = ["objdump", "-d", "--no-show-raw-insn", str(HOOK), f"--disassemble={name}"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert re.search(r"jmp\s+\*", shown), shown
