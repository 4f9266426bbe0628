"""The hook in front of NVIDIA's own libcuda.so.1, on a machine without a card.

The library is proprietary and optional: `python -m testbed.libcuda` fetches it once.  Without it these tests are
skipped and counted.  `make drills ROOM=hook` fetches it by itself.
"""

import subprocess
from pathlib import Path

import pytest

from testbed.libcuda.pins import DRIVERS, Driver
from testbed.libcuda.supply import cached, remedy
from tests.hook.support.machine import HOOK
from tests.hook.support.own_driver import Compared, OwnDriver, bases, compare, unknown_forms, wrapped
from tests.hook.support.swapless import build_without
from tests.plugins.optional import skip_optional

pytestmark = pytest.mark.slow

QUESTIONS = 446 * 35 * 3
"""At least so many were compared by hand on driver 595: the headers only grow."""


@pytest.fixture(scope="module", params=DRIVERS, ids=[driver.version for driver in DRIVERS])
def own(request: pytest.FixtureRequest) -> OwnDriver:
    driver: Driver = request.param
    folder = cached(driver)
    if folder is None:
        skip_optional(f"NVIDIA's driver library {driver.version}", remedy(driver))
    return OwnDriver(driver, folder)


@pytest.fixture(scope="module")
def compared(own: OwnDriver, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return compare(own, tmp_path_factory.mktemp("names"))


def test_every_name_at_every_version_with_every_flag_is_answered_as_the_driver_answers(compared: Compared) -> None:
    unknown = [question for question in compared.differing() if not compared.is_known(question)]

    assert unknown == []
    assert len(compared.bare) >= QUESTIONS


def test_no_answer_is_a_driver_function_that_the_hook_wraps(compared: Compared) -> None:
    assert compared.escaped() == []
    assert sum(answer.of_hook for answer in compared.hooked.values()) > 5000


@pytest.fixture(scope="module")
def swapless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_without("cuGetProcAddress", tmp_path_factory.mktemp("swapless"))


def test_a_hook_that_swaps_nothing_is_found_out_by_that(own: OwnDriver, swapless: Path, tmp_path: Path) -> None:
    assert len(compare(own, tmp_path, hook=swapless).escaped()) > 5000


def test_every_wrapped_function_of_its_version_is_exported_and_no_form_of_it_is_unknown(own: OwnDriver) -> None:
    exported = own.exported()

    assert [name for name, since in wrapped().items() if since <= own.driver.cuda and name not in exported] == []
    assert list(unknown_forms(own)) == []


def test_loading_unloading_forking_threads_and_exit_are_as_without_the_hook(own: OwnDriver) -> None:
    bare, hooked = own.run("life", hooked=False), own.run("life", hooked=True)

    assert f"version {own.driver.cuda} " in bare.stdout
    assert "init 100" in bare.stdout, "there is a card here: these tests are for machines without one"
    assert (hooked.returncode, hooked.stdout) == (bare.returncode, bare.stdout) == (0, bare.stdout)
    assert hooked.stderr == bare.stderr


def test_the_software_driver_answers_every_question_as_this_driver_does(compared: Compared, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("\n".join(bases()))

    ours = compared.own.software_answers(names)

    assert [question for question, answer in compared.bare.items() if ours[question] != answer] == []


def test_the_software_driver_is_as_symbolic_as_nvidia_s(own: OwnDriver) -> None:
    dynamic = subprocess.run(["readelf", "-d", own.folder / "libcuda.so.1"], capture_output=True, text=True, check=True)

    assert "(SYMBOLIC)" in dynamic.stdout


DEEP = """
#define _GNU_SOURCE
#include <dlfcn.h>
void *find(const char *name) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name); }
void *ask(const char *name) {
    void *found = 0;
    ((int (*)(const char *, void **, int, unsigned long, int *))find("cuGetProcAddress_v2"))(name, &found, 12000, 0, 0);
    return found;
}
"""


def test_a_library_that_is_loaded_with_deepbind_finds_the_hook(own: OwnDriver, tmp_path: Path) -> None:
    """Find the hook where libc's own dlsym comes first: Julia loads every library with RTLD_DEEPBIND."""
    library = tmp_path / "libdeep.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=DEEP, text=True, check=True)

    found = own.run("deep", library, hooked=True).stdout.splitlines()

    assert [line.split()[:2] for line in found] == [["dlsym", HOOK.name], ["cuGetProcAddress", HOOK.name]]
