"""Write the hook's wrappers, look-up table and export list from functions.table into the build folder; make runs it.

The rule: a function's line in the table says what it is; nothing here knows a function by its name.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

KINDS = ("work", "begin", "finish", "end", "own", "use")
NOT_WRAPPED = "use"
_GUARD = "#ifndef NVSHARE_DRIVER_H\n#define NVSHARE_DRIVER_H\n{}#endif\n"
LINE = re.compile(r"(?P<kind>\w+)\s+(?P<symbol>\w+) (?P<since>\d+) \((?P<parameters>.*)\)")
PATTERN = re.compile(r"(?P<kind>exempt|risk) (?P<pattern>\S+): .+")
SYMBOL = re.compile(r"(?P<base>\w+?)(_v\d+)?(?P<suffix>_ptsz|_ptds)?")
SIZES = {"ByteCount": "{}", "N": "{}", "size": "{}", "Width": "{} * Height", "bytesize": "{}", "length": "{}"}
"""How large a piece of work is, by the parameter that says so."""


@dataclass(frozen=True, slots=True)
class Function:
    """One line of the table."""

    kind: str
    symbol: str
    since: int
    parameters: str

    @property
    def base(self) -> str:
        found = SYMBOL.fullmatch(self.symbol)
        assert found
        return self.symbol if self.symbol.startswith("nvml") else found["base"]

    @property
    def is_per_thread(self) -> bool:
        return self.symbol.endswith(("_ptsz", "_ptds"))

    @property
    def result(self) -> str:
        return "nvmlReturn_t" if self.symbol.startswith("nvml") else "CUresult"

    @property
    def names(self) -> dict[str, str]:
        """Parameter name to type, in order."""
        pairs = (re.fullmatch(r"(.*?[ *])(\w+)", one.strip()) for one in self.parameters.split(","))
        return {pair[2]: pair[1].strip() for pair in pairs if pair}

    @property
    def arguments(self) -> str:
        return ", ".join(self.names)

    @property
    def stream(self) -> str:
        """The C expression of the stream that the call goes into."""
        given = [name for name, kind in self.names.items() if kind == "CUstream"]
        stream = given[0] if given else "config->hStream" if "config" in self.names else "NULL"
        if not self.is_per_thread:
            return stream
        return "CU_STREAM_PER_THREAD" if stream == "NULL" else f"({stream} ? {stream} : CU_STREAM_PER_THREAD)"

    @property
    def key(self) -> str:
        """The C expressions that tell one piece of work from another of a different length."""
        names = self.names
        if "config" in names:
            return "kernel_key((uintptr_t)f, &(struct shape)CONFIG_SHAPE(config))"
        if "gridDimX" in names:
            shape = "{gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ}"
            return f"kernel_key((uintptr_t)f, &(struct shape){shape})"
        for handle in ("f", "hGraph", "hGraphExec"):
            if handle in names:
                return f"plain_key((uintptr_t){handle}, 0)"
        size = next((form.format(name) for name, form in SIZES.items() if name in names), "0")
        return f"plain_key(WORK_{self.symbol}, {size})"


def read_table(text: str) -> list[Function]:
    """Return the functions of a table."""
    rows = (LINE.fullmatch(line.strip()) for line in text.splitlines())
    functions = [Function(row["kind"], row["symbol"], int(row["since"]), row["parameters"]) for row in rows if row]
    assert all(function.kind in KINDS for function in functions)
    return functions


def read_patterns(text: str, kind: str) -> list[str]:
    """Return the patterns of a kind, `exempt` or `risk`."""
    rows = (PATTERN.fullmatch(line.strip()) for line in text.splitlines())
    return [row["pattern"] for row in rows if row and row["kind"] == kind]


BODIES = {
    "work": "    THROUGH_THE_GATE({symbol}, {stream}, {key}, ({arguments}));",
    "begin": "    BEGIN_CAPTURE({symbol}, {stream}, ({arguments}));",
    "finish": "    FINISH_CAPTURE({symbol}, {stream}, ({arguments}));",
    "end": "    END_CONTEXT({symbol}, ({arguments}));",
}


def write_wrapper(function: Function) -> str:
    body = BODIES[function.kind].format(
        symbol=function.symbol, stream=function.stream, key=function.key, arguments=function.arguments
    )
    if "config" in function.names:
        body = f"    LAUNCH_NEEDS_CONFIG({function.symbol}, ({function.arguments}));\n{body}"
    return f"EXPORT {function.result} {function.symbol}({function.parameters}) {{\n{body}\n}}\n"


def write_header(functions: list[Function]) -> str:
    members = "".join(f"    {one.result} (*{one.symbol})({one.parameters});\n" for one in functions)
    numbers = "".join(f"    WORK_{one.symbol},\n" for one in functions if one.kind == "work")
    wrapped = "".join(f"{one.result} {one.symbol}({one.parameters});\n" for one in functions if one.kind != NOT_WRAPPED)
    return (
        "#ifndef NVSHARE_DRIVER_H\n#define NVSHARE_DRIVER_H\n"
        '#include "driver/abi.h"\n\n/* The driver\'s own functions; NULL where it lacks one. */\n'
        f"struct driver {{\n{members}}};\nextern struct driver driver;\n\n"
        f"enum {{\n    WORK_NONE,\n{numbers}}};\n\n{wrapped}#endif\n"
    )


def write_entries(functions: list[Function], text: str) -> str:
    """Return the look-up table, sorted by symbol, and the patterns."""
    rows = "".join(
        f'    {{"{one.symbol}", "{one.base}", {one.since}, {int(one.is_per_thread)}, '
        f"{'NULL' if one.kind == NOT_WRAPPED else f'(void *)(uintptr_t){one.symbol}'}, "
        f"offsetof(struct driver, {one.symbol})}},\n"
        for one in sorted(functions, key=lambda one: one.symbol)
    )
    return (
        '#include "driver/driver.h"\n\n#include "driver/entries.h"\n\nstruct driver driver;\n\n'
        f"const struct entry entries[] = {{\n{rows}}};\nconst unsigned entry_count = {len(functions)};\n"
        + "".join(_patterns(kind, read_patterns(text, kind)) for kind in ("exempt", "risk"))
    )


def _patterns(kind: str, patterns: list[str]) -> str:
    lines = "".join(f'    "{one}",\n' for one in patterns)
    return f"\nconst char *const {kind}_patterns[] = {{\n{lines}    NULL,\n}};\n"


def write_exports(functions: list[Function]) -> str:
    names = ["dlopen", "dlsym", "dlvsym", *sorted(one.symbol for one in functions if one.kind != NOT_WRAPPED)]
    return "{\n  global:\n" + "".join(f"    {name};\n" for name in names) + "  local: *;\n};\n"


def main(table: str, folder: str) -> None:
    text = Path(table).read_text()
    functions = read_table(text)
    wrappers = '#include "driver/driver.h"\n\n#include "wrappers/wrap.h"\n\n' + "\n".join(
        write_wrapper(one) for one in functions if one.kind in BODIES
    )
    files = {
        "driver/driver.h": write_header(functions),
        "driver/entries.c": write_entries(functions, text),
        "wrappers/made_wrappers.c": wrappers,
        "exports.map": write_exports(functions),
    }
    for name, text in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
