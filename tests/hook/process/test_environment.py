"""Environment variables count stand-alone only: in a container that was given GPUs they turn nothing off."""

import os
import shutil
import subprocess
import time

import pytest

from contract.words import paths
from tests.fakes.wire.daemon import Peer
from tests.hook.support.machine import Machine, compiled


def _as_in_a_container(machine: Machine) -> list[str]:
    """Return a command prefix that puts an allocation's folder where a container has it; skip if impossible."""
    isolate = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if not shutil.which("unshare") or subprocess.run([*isolate, "true"], capture_output=True).returncode:
        pytest.skip("this user may not make mount namespaces: what a container's environment may steer is NOT tested")
    run = machine.folder / "run"
    own = run / "nvshare" / paths.OWN_FOLDER
    own.parent.mkdir(parents=True)
    own.symlink_to(machine.folder)
    return [*isolate, "sh", "-c", 'mount --bind "$0" /run && exec "$@"', str(run)]


@pytest.mark.slow
@pytest.mark.parametrize("elsewhere", ["/nonexistent", ""])
def test_in_a_container_neither_an_empty_folder_nor_a_variable_makes_it_go_on_without_turns(
    machine: Machine, peer: Peer, elsewhere: str
) -> None:
    before = _as_in_a_container(machine)
    program = machine.start(
        *before, compiled("pulse"), "1", "3", "step_1us", NVSHARE_SOCKETS=elsewhere, NVSHARE_ON_LOSS="run"
    )
    try:
        connection = peer.accept()
        hello = connection.hear("hello")
        time.sleep(2.3)  # longer than the window after which it would go on
        assert program.poll() is None
    finally:
        program.kill()
        _, said = program.communicate()

    assert "on_loss" not in hello.words
    assert "no scheduler" not in said


@pytest.mark.slow
def test_in_a_container_no_socket_is_asked_that_a_program_could_have_put_beside_its_own_folder(
    machine: Machine,
) -> None:
    # A program that may write there could wait for a restart of the scheduler, and take its place.
    before = _as_in_a_container(machine)
    impostor = Peer(machine.folder / "run" / "nvshare", machine.uuids())
    program = machine.start(*before, compiled("pulse"), "1", "3", "step_1us")
    try:
        assert not impostor.is_asked(within=1.5)
        genuine = Peer(machine.folder, machine.uuids())
        genuine.accept().hear("hello")
    finally:
        program.kill()
        program.communicate()


def test_stand_alone_the_folder_may_be_anywhere(machine: Machine, peer: Peer) -> None:
    program = machine.start(compiled("pulse"), "1", "3", "step_1us", NVSHARE_ON_LOSS="run")
    connection = peer.accept()

    assert connection.hear("hello").words["on_loss"] == "run"
    program.kill()
    program.communicate()
