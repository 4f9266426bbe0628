"""A library that is loaded with RTLD_DEEPBIND finds our wrappers like any other; dlopen is else as it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hook.support.machine import DRIVER, Machine

ESCAPING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
int cuLaunchKernel(void);
int cuGetProcAddress_v2(const char *, void **, int, unsigned long long, int *);
static const char *library_of(void *function) {
    Dl_info info = {0};
    dladdr(function, &info);
    return info.dli_fname ? strrchr(info.dli_fname, '/') + 1 : "none";
}
const char *linked(void) { return library_of((void *)cuLaunchKernel); }
const char *looked_up(void) { return library_of(dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "cuLaunchKernel")); }
const char *asked(void) {
    void *found = 0;
    cuGetProcAddress_v2("cuLaunchKernel", &found, 12000, 0, 0);
    return library_of(found);
}
"""
LOADING = """
#define _GNU_SOURCE
#include <dlfcn.h>
int finds(int flags) { return dlopen("libbeside.so", RTLD_NOW | flags) != 0; }
"""


def library(folder: Path, name: str, source: str, *flags: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"lib{name}.so"
    words = ["gcc", "-shared", "-fPIC", "-w", "-x", "c", "-o", str(path), "-", *flags]
    subprocess.run(words, input=source, text=True, check=True)
    return path


@pytest.mark.parametrize("flags", [0, os.RTLD_DEEPBIND], ids=["usual", "deep"])
@pytest.mark.parametrize("way", ["linked", "looked_up", "asked"])
def test_whatever_flags_a_library_is_loaded_with_it_finds_the_hook(machine: Machine, way: str, flags: int) -> None:
    path = library(machine.folder, "escaping", ESCAPING, f"-L{DRIVER}", "-lcuda", "-ldl")
    code = (
        f"import ctypes, os; way = ctypes.CDLL({str(path)!r}, os.RTLD_NOW | {flags}).{way}\n"
        "way.restype = ctypes.c_char_p; print(way().decode())"
    )

    assert machine.run(sys.executable, "-c", code).well().strip() == "libnvshare.so"


def test_a_library_that_is_loaded_deeply_escapes_without_this(machine: Machine) -> None:
    # What the flag does where nobody takes it away: the driver's own function is found.
    path = library(machine.folder, "escaping", ESCAPING, f"-L{DRIVER}", "-lcuda", "-ldl")
    load = library(
        machine.folder, "load", "#include <dlfcn.h>\nvoid *load(const char *p, int f) { return dlopen(p, f); }"
    )
    code = (
        f"import ctypes, os; load = ctypes.CDLL({str(load)!r}).load; load.restype = ctypes.c_void_p\n"
        f"lib = ctypes.CDLL(None, handle=load({str(path)!r}.encode(), os.RTLD_NOW | os.RTLD_DEEPBIND))\n"
        "lib.linked.restype = ctypes.c_char_p; print(lib.linked().decode())"
    )
    bare = machine.run(sys.executable, "-c", code, hooked=False).well().strip()

    assert bare == "libcuda.so.1"
    assert machine.run(sys.executable, "-c", code).well().strip() == "libnvshare.so"


@pytest.mark.parametrize("hooked", [True, False])
@pytest.mark.parametrize("flags", [0, os.RTLD_DEEPBIND])
def test_a_library_finds_what_lies_beside_it_by_its_own_search_path(machine: Machine, flags: int, hooked: bool) -> None:
    # The loader takes the search path of the library that calls dlopen, by the address of the call.
    library(machine.folder / "deep", "beside", "int beside;")
    path = library(machine.folder, "loading", LOADING, "-Wl,-rpath,$ORIGIN/deep", "-ldl")
    code = f"import ctypes; print(ctypes.CDLL({str(path)!r}).finds({flags}))"

    assert machine.run(sys.executable, "-c", code, hooked=hooked).well().strip() == "1"


def test_a_load_that_fails_tells_why(machine: Machine) -> None:
    code = "import ctypes\ntry: ctypes.CDLL('libnowhere.so.9')\nexcept OSError as error: print(error)"

    assert "libnowhere.so.9: cannot open shared object file" in machine.run(sys.executable, "-c", code).well()
