"""Every way in which a program finds a driver function leads to the hook.  All other symbols are found as before."""

import subprocess
from pathlib import Path

import pytest

from tests.hook.support.machine import Machine, compiled

HOOK, DRIVER = "libnvshare.so", "libcuda.so.1"
WAYS = [
    ("link", HOOK, "cuLaunchKernel"),
    ("default", HOOK, "cuLaunchKernel"),
    ("next", HOOK, "cuLaunchKernel"),
    ("handle", HOOK, "cuLaunchKernel"),
    ("plain-handle", HOOK, "cuLaunchKernel"),
    ("main-handle", HOOK, "cuLaunchKernel"),
    ("unwrapped", DRIVER, "cuDriverGetVersion"),
    ("absent", "nothing", "nothing"),
    ("nvml", HOOK, "nvmlDeviceGetMemoryInfo"),
    ("foreign", "libforeign.so", "cuLaunchKernel"),
    ("v1", HOOK, "cuMemAlloc_v2"),
    ("v2", HOOK, "cuMemAlloc_v2"),
    ("v2.status", "status", "0"),
    ("v2-old", HOOK, "cuMemAlloc"),
    ("v2-legacy", HOOK, "cuLaunchKernel"),
    ("v2-per-thread", HOOK, "cuLaunchKernel_ptsz"),
    ("v2-per-thread-sync", HOOK, "cuMemcpyHtoD_v2_ptds"),
    ("v2-batch-12", HOOK, "cuMemcpyBatchAsync"),
    ("v2-batch-13", HOOK, "cuMemcpyBatchAsync_v2"),
    ("v2-too-early", "nothing", "nothing"),
    ("v2-too-early.status", "status", "2"),
    ("v2-absent.status", "status", "1"),
    ("v2-future", HOOK, "cuLaunchKernel"),
    ("second-hop", HOOK, "cuGetProcAddress_v2"),
    ("after-second-hop", HOOK, "cuMemFree_v2"),
    ("after-second-hop.status", "status", "0"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Return what the program found in each way."""
    folder = tmp_path_factory.mktemp("lookups")
    return _found(Machine(folder), _foreign(folder))


def _foreign(folder: Path) -> Path:
    """Build a library that has a function of its own with the name of a driver function."""
    library = folder / "libforeign.so"
    source = "int cuLaunchKernel(void) { return 1; }"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=source, text=True, check=True)
    return library


def _found(machine: Machine, foreign: Path, hooked: bool = True) -> dict[str, tuple[str, str]]:
    rows = (
        line.split()
        for line in machine.run(compiled("lookups"), foreign, SIMGPU_DRIVER_VERSION="99000", hooked=hooked)
        .well()
        .splitlines()
    )
    return {way: (library, symbol) for way, library, symbol in rows}


@pytest.mark.parametrize(("way", "library", "symbol"), WAYS, ids=[way for way, _, _ in WAYS])
def test_it_finds(found: dict[str, tuple[str, str]], way: str, library: str, symbol: str) -> None:
    assert found[way] == (library, symbol)


def test_a_form_that_is_newer_than_the_hook_is_left_alone_and_said_once(machine: Machine) -> None:
    # A future driver knows one function in two forms.
    source = """
    int cuLaunchKernel(void) { return 1; }
    int cuLaunchKernel_v9(void) { return 9; }
    int cuGetProcAddress_v2(const char *symbol, void **found, int version, unsigned long flags, int *status) {
        *found = version >= 99000 ? (void *)cuLaunchKernel_v9 : (void *)cuLaunchKernel;
        return 0;
    }
    """
    library = machine.folder / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], input=source, text=True, check=True)
    code = (
        "import ctypes; ask = ctypes.CDLL('libcuda.so.1').cuGetProcAddress_v2; found = ctypes.c_void_p()\n"
        "for _ in range(2):\n"
        "    ask(b'cuLaunchKernel', ctypes.byref(found), 99000, ctypes.c_uint64(0), None)\n"
        "    print(ctypes.CFUNCTYPE(ctypes.c_int)(found.value)())"
    )

    ended = machine.run("python3", "-c", code, LD_LIBRARY_PATH=str(machine.folder))

    assert ended.well().split() == ["9", "9"]
    assert ended.said.count("nvshare: ") == 1
    assert "cuLaunchKernel of CUDA 99.0 is newer than this hook" in ended.said


FUTURE = """
int cuLaunchKernel(void) { return 1; }
int cuLaunchTwice(void) { return 2; }
int cuMemcpyTwice_v2(void) { return 3; }
int cuStreamWaitEventTwice(void) { return 4; }
int cuFrobnicate(void) { return 5; }
int cuGraphAddNode(void *a, void *b, void *c, unsigned long d, void *e) { return 6; }
int cuGetProcAddress_v2(const char *symbol, void **found, int version, unsigned long flags, int *status) {
    *found = symbol[2] == 'G' ? (void *)cuGraphAddNode : (void *)cuLaunchTwice;
    return 0;
}
"""
"""A driver with functions that no table knows, and with the older form of one that newer ones have in two."""


def _in_future(machine: Machine, code: str) -> tuple[str, list[str]]:
    library = machine.folder / "libcuda.so.1"
    words = ["gcc", "-shared", "-fPIC", "-w", "-Wl,-Bsymbolic", "-x", "c", "-o", str(library), "-"]
    subprocess.run(words, input=FUTURE, text=True, check=True)
    begin = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); found = ctypes.c_void_p()\n"
    ask = "ask = lambda name, v: c.cuGetProcAddress_v2(name, ctypes.byref(found), v, ctypes.c_uint64(0), None)\n"
    ended = machine.run("python3", "-c", begin + ask + code, LD_LIBRARY_PATH=str(machine.folder))
    return ended.well(), ended.said.splitlines()


@pytest.mark.parametrize(
    ("code", "name"),
    [
        pytest.param("c.cuLaunchTwice", "cuLaunchTwice", id="dlsym"),
        pytest.param("c.cuMemcpyTwice_v2", "cuMemcpyTwice_v2", id="dlsym, a form of it"),
        pytest.param("ask(b'cuLaunchTwice', 13000)", "cuLaunchTwice", id="cuGetProcAddress"),
    ],
)
def test_a_function_that_no_table_knows_is_said_once(machine: Machine, code: str, name: str) -> None:
    out, said = _in_future(machine, f"{code}\n{code}\nc.cuMemcpyTwice_v2\nprint(c.cuLaunchTwice())")

    assert out == "2\n", "the program gets what it asked for"
    assert len(said) == 1
    assert f"the driver's function {name} is not known to this hook" in said[0]


@pytest.mark.parametrize("name", ["cuFrobnicate", "cuStreamWaitEventTwice", "cuMemcpyThrice"])
def test_a_function_that_starts_nothing_or_is_not_there_is_passed_in_silence(machine: Machine, name: str) -> None:
    assert _in_future(machine, f"hasattr(c, {name!r})")[1] == []


def test_a_driver_that_answers_an_older_form_is_wrapped_in_that_form(machine: Machine) -> None:
    # CUDA 12.2's driver, asked for what 12.3 has with six parameters, answers its form of five.
    code = (
        "ask(b'cuGraphAddNode', 12030)\n"
        "print(found.value == ctypes.cast(c.cuGraphAddNode, ctypes.c_void_p).value)\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)(found.value)(1, 2, 3, 0, None))"
    )

    assert _in_future(machine, code) == ("True\n6\n", [])


@pytest.mark.parametrize("way", ["libm", "libm-versioned"])
def test_a_look_up_that_is_not_for_cuda_finds_what_it_found_before(machine: Machine, way: str) -> None:
    foreign = _foreign(machine.folder)

    assert _found(machine, foreign)[way] == _found(machine, foreign, hooked=False)[way]


def test_a_program_without_cuda_does_not_see_any(machine: Machine) -> None:
    # Our wrappers are in the program's memory, and yet a look-up of the driver's functions finds none.
    code = "import ctypes; print(hasattr(ctypes.CDLL(None), 'cuInit'), hasattr(ctypes.CDLL(None), 'cuLaunchKernel'))"

    ended = machine.run("python3", "-c", code, LD_LIBRARY_PATH="")

    assert ended.well().split() == ["False", "False"]


def test_a_library_that_looks_behind_itself_is_its_own_caller(machine: Machine) -> None:
    # RTLD_NEXT from a library that is preloaded behind us gives the next symbol after that library, as without us.
    library = machine.folder / "libbehind.so"
    source = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <stdio.h>
    #include <unistd.h>
    int getpid(void) { return ((int (*)(void))dlsym(RTLD_NEXT, "getpid"))() ? 42 : 0; }
    """
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-x", "c", "-o", library, "-", "-ldl"], input=source, text=True, check=True
    )

    ended = machine.run("python3", "-c", "import os; print(os.getpid())", LD_PRELOAD=f"{machine.hook} {library}")

    assert ended.well().strip() == "42"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["looks-up", "forks"])
def test_a_library_s_constructor_may_look_up_or_fork_while_another_thread_begins(machine: Machine, how: str) -> None:
    # The constructor runs under the loader's lock, so no lock of ours may be held while we ask the loader.
    library = machine.folder / "libslow.so"
    source = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <unistd.h>
    __attribute__((constructor)) static void constructed(void) {
        sleep(1);
        if (FORKS && !fork())
            _exit(0);
        if (!FORKS)
            dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
    }
    """
    flags = ["-shared", "-fPIC", f"-DFORKS={int(how == 'forks')}"]
    subprocess.run(["gcc", *flags, "-x", "c", "-o", library, "-", "-ldl"], input=source, text=True, check=True)
    program = machine.start(compiled("loading"), library)
    try:
        out, said = program.communicate(timeout=10)
    finally:
        program.kill()
        program.communicate()

    assert (program.returncode, out) == (0, "0\n"), said
