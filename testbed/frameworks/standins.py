"""Build the stand-ins: C files of ours, and the functions that are generated from what the wheels ask for.

The rule: what a wheel needs is read from the wheel itself (`nm`), so a new version says by itself what is missing.
The build goes into a folder that is named after everything it was made from.
"""

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from testbed.cluster import cache
from testbed.frameworks.errors import BuildError
from testbed.frameworks.libraries import DRIVER, LIBRARIES, Library, Otherwise, owner

SOURCES = Path(__file__).parent / "src"
FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC", "-pthread", "-Wall", "-Wextra", "-Werror", "-Wstrict-prototypes")
OURS = ("-Wmissing-prototypes", "-Wwrite-strings", "-Wundef")
TEXT = re.compile(r"(String|Name)$")
"""Functions that return a text."""
SETTINGS = re.compile(r"^cublas(Lt)?(Get|Set|Logger|Create|Destroy)")
"""Functions of cuBLAS that do no work on the device."""


def build(wheels: Sequence[Path], headers: Path, *, say: cache.Say) -> Path:
    """Return the folder with the stand-ins for these wheels' libraries; build it where it does not exist yet."""
    asked = needed_by(wheels)
    made_from = [path.read_bytes() for path in sorted(SOURCES.rglob("*.[chd]*")) if path.is_file()]
    made_from += [Path(__file__).with_name(name).read_bytes() for name in ("libraries.py", "standins.py")]
    key = cache.digest("\n".join(sorted(asked)).encode(), *made_from)
    return cache.filled(f"standins-{key}", lambda folder: _build_all(folder, asked, headers), say=say)


def needed_by(wheels: Iterable[Path]) -> set[str]:
    """Return the names of all functions that the wheels' libraries expect from others."""
    found: set[str] = set()
    for wheel in wheels:
        listed = _output("nm", "-D", "--undefined-only", str(wheel))
        found |= {line.split()[-1].partition("@")[0] for line in listed.splitlines() if line.strip()}
    return found


def _build_all(folder: Path, asked: set[str], headers: Path) -> None:
    for library in LIBRARIES:
        _build_one(folder, library, {name for name in asked if owner(name) is library} | set(library.also), headers)


def _build_one(folder: Path, library: Library, asked: set[str], headers: Path) -> None:
    objects = folder / "objects" / library.soname
    objects.mkdir(parents=True)
    made = [_compile(SOURCES / source, objects, headers, OURS) for source in (*DRIVER, *library.sources)]
    defined = {
        line.split()[-1] for line in _output("nm", "--defined-only", *map(str, made)).splitlines() if " T " in line
    }
    generated = objects / "generated.c"
    generated.write_text(generate(library, sorted(asked - defined)))
    made.append(_compile(generated, objects, headers, ()))
    exported = "".join(f"{name};" for name in sorted(asked | {each for each in defined if owner(each) is library}))
    script = objects / "exports.map"
    script.write_text(f"{library.node} {{ global: {exported or 'none_at_all;'} local: *; }};\n")
    _output(
        "gcc", "-shared", "-pthread", f"-Wl,-soname,{library.soname}", f"-Wl,--version-script={script}",
        "-Wl,-z,relro,-z,now,-Bsymbolic", "-o", str(folder / library.soname), *map(str, made), "-ldl", "-lrt",
    )  # fmt: skip


def _compile(source: Path, objects: Path, headers: Path, more: Sequence[str]) -> Path:
    made = objects / f"{source.stem}.o"
    _output("gcc", *FLAGS, *more, f"-I{SOURCES}", "-isystem", str(headers), "-c", str(source), "-o", str(made))
    return made


def generate(library: Library, names: Iterable[str]) -> str:
    """Write the functions of a library that are not written by hand."""
    lines = ['#include "math/status.h"', '#include "math/cublas.h"']
    lines += [_function(library, name) for name in names]
    return "\n".join(lines) + "\n"


def _function(library: Library, name: str) -> str:
    if TEXT.search(name):
        return f'const char *{name}(void);\nconst char *{name}(void) {{ return "a stand-in\'s error"; }}'
    if library.otherwise is Otherwise.LAUNCH and not SETTINGS.match(name):
        return _launch(name)
    answer = f'standin_refuse("{library.soname}", "{name}", {library.status})'
    return f"int {name}(void);\nint {name}(void) {{ return {answer}; }}"


def _launch(name: str) -> str:
    kernel = f'static struct kernel kernel = {{.name = "{name}_param"}};'
    if "gemm" not in name.lower():
        parameters, body = "struct cublas *handle", "standin_cublas(handle, &kernel)"
    else:
        parameters = "struct cublas *handle, int a, int b, int m, int n, int k"
        body = "(void)a, (void)b, standin_product(handle, &kernel, m, n, k)"
    return f"int {name}({parameters});\nint {name}({parameters}) {{ {kernel} return {body}; }}"


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(
            f"`{command[0]} … {command[-1]}` failed: {done.stderr.strip()[-2000:]}", "read the compiler's words above"
        )
    return done.stdout
