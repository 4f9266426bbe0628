"""The right GPU: a MIG instance, in the order that the visible devices say."""

import time
from pathlib import Path

from tests.hook.peer import Peer
from tests.hook.support import Machine, compiled
from tests.simgpu.record import Record


def test_a_mig_instance_is_asked_for_by_its_own_uuid(tmp_path: Path) -> None:
    machine = Machine(tmp_path, devices="2xA100-40GB")
    instances = ["MIG-" + uuid.removeprefix("GPU-") for uuid in machine.uuids()]
    peer = Peer(machine.sockets, instances)
    turned = ",".join(reversed(instances))
    program = machine.start(
        compiled("drain"), "0.1", "step_1ms", NVIDIA_VISIBLE_DEVICES=",".join(instances), CUDA_VISIBLE_DEVICES=turned
    )
    connection = peer.accept()
    hello = peer.welcome(connection)
    connection.hear("want", gpus=instances[1])
    peer.grant(connection, 1)
    _, said = program.communicate()
    peer.stop()

    assert program.returncode == 0, said
    assert hello.words["gpus"] == turned
    assert Record(machine.gpus).intervals(1)
    assert not Record(machine.gpus).intervals(0)


def test_a_hello_that_would_not_fit_is_not_said_before_the_turns_are_given_up(machine: Machine) -> None:
    """More turns held than a line can name."""
    others = [f"GPU-{number:08x}-0000-0000-0000-000000000000" for number in range(62)]
    peer = Peer(machine.sockets, [*machine.uuids(), *others])
    program = machine.start(compiled("pulse"), "5", "100000", "step_1us")
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
