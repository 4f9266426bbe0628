"""The right GPU: a MIG instance, in the order that the visible devices say."""

from pathlib import Path

from testbed.gpu_record import Record
from tests.fakes.wire.daemon import Peer
from tests.hook.support.machine import Machine, compiled


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
