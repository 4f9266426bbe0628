"""The hook with the address and the thread sanitizer, and with checked locks, in programs of many threads."""

import subprocess
import time
from pathlib import Path

import pytest

from tests.fakes.wire.daemon import Peer
from tests.hook.support.machine import HOOK, Machine, compiled, hook_built

pytestmark = pytest.mark.slow
KINDS = {"address": ("libasan.so", "ASAN_OPTIONS"), "thread": ("libtsan.so", "TSAN_OPTIONS")}
PROGRAMS = [("threading", "8"), ("churn_some", "3000"), ("capturing", "0.7"), ("families", "16")]


@pytest.fixture(params=KINDS)
def sanitized(machine: Machine, request: pytest.FixtureRequest) -> Machine:
    """Return a machine whose hook is built with the sanitizer, with the sanitizer's runtime first in the process."""
    library, variable = KINDS[request.param]
    flags = f"-O1 -g -fno-omit-frame-pointer -fsanitize={request.param} -DNVSHARE_DEBUG"
    # A sanitizer's start asks dlsym before anything instrumented may run: look-ups have tests of their own.
    renamed = "-Ddlopen=hook_dlopen -Ddlsym=hook_dlsym -Ddlvsym=hook_dlvsym -Wno-missing-prototypes"
    machine.hook = hook_built(f"sanitize-{request.param}", CFLAGS=flags, EXTRA=renamed)
    runtime = subprocess.run(["gcc", f"-print-file-name={library}"], capture_output=True, text=True, check=True).stdout
    machine.settings = {
        "LD_PRELOAD": f"{Path(runtime.strip()).resolve()} {machine.hook}",
        variable: "exitcode=66:detect_leaks=0:report_thread_leaks=0:halt_on_error=1:verify_asan_link_order=0",
    }
    assert machine.hook != HOOK
    return machine


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0])
def test_nothing_is_found(sanitized: Machine, program: tuple[str, ...]) -> None:
    neighbour = sanitized.start(compiled("hammer"), "2", "step_1us", "stream")

    ended = sanitized.run(compiled(program[0]), *program[1:])

    ended.well()
    assert "Sanitizer" not in ended.said
    _, said = neighbour.communicate(timeout=30)
    assert neighbour.returncode == 0, said[-3000:]


def test_a_hello_that_would_not_fit_is_not_said_before_the_turns_are_given_up(sanitized: Machine) -> None:
    # The process holds more turns than a line can name.  Nothing may be written beyond the line.
    others = [f"GPU-{number:08x}-0000-0000-0000-000000000000" for number in range(62)]
    peer = Peer(sanitized.sockets, [*sanitized.uuids(), *others])
    program = sanitized.start(compiled("pulse"), "5", "100000", "step_1us")
    try:
        connection = peer.accept()
        peer.welcome(connection, announce_ms=300)
        connection.hear("want")
        connection.say("grant", gpus=",".join(peer.gpus), turn="0000000a.1111111111111111111111")
        time.sleep(0.1)  # until it has been heard
        peer.gate.set(0, 1)
        assert program.stdout
        program.stdout.readline()
        peer.close_gate()
        connection.close()
        again = peer.accept()

        assert "holding" not in again.hear("hello").words
        assert program.poll() is None
    finally:
        program.kill()
        program.communicate()
        peer.stop()
