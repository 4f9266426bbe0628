"""kill -9 in mid-allocation: the ledger's total stays exact.

These are the drill's parts, which the tests run at a reduced count.  The daemon is real, and the container has a cap.
Processes allocate and free as fast as they can, and are killed at any moment.  One more process of the container only
reads the ledger.
"""

import random
import struct
import tempfile
import time
from pathlib import Path

from contract.wire import shared_memory as layout
from tests.fakes.wire.allocations import known_containers
from tests.fakes.wire.client import Client
from tests.hook.support.machine import Machine, compiled, wait_until

MIB = 1 << 20
CAP = 64 * MIB
AT_ONCE = 6


def ledger_total(client: Client) -> int:
    """Return the memory that the container holds: the sum over all slots."""
    assert client.ledger is not None
    places = (layout.ledger_slot(1, slot) + layout.LINE for slot in range(layout.LEDGER_SLOTS))
    return sum(sum(struct.unpack_from("=2Q", client.ledger, at)) for at in places)


def kill_in_mid_allocation(times: int) -> str:
    """Kill in batches; raise when bytes are still counted after a batch, or the cap cannot be used whole."""
    number, killed, busiest = random.Random(times), 0, 0
    with tempfile.TemporaryDirectory() as path:
        machine = Machine(Path(path))
        with known_containers(machine.folder) as containers:
            sockets = containers.add("k", *machine.uuids(), weight=100, memory=CAP)
            watcher = Client(sockets / "mine" / "scheduler.sock", container="k", gpus=machine.uuids()[0])
            while killed < times:
                count = min(AT_ONCE, times - killed)
                busiest = max(busiest, _kill_some(machine, sockets, watcher, count, number))
                killed += count
            ended = machine.run(compiled("hold"), "16", "100", NVSHARE_SOCKETS=str(sockets))
            assert ended.well().split()[0] == str(CAP // 16 // MIB), ended.out
    assert busiest > CAP // 4, f"at most {busiest} bytes were ever held: the kills met nothing"
    return f"{killed} kills, up to {busiest / MIB:.0f} MiB held when they came, 0 bytes left each time"


def _kill_some(machine: Machine, sockets: Path, watcher: Client, count: int, number: random.Random) -> int:
    programs = [
        machine.start(compiled("churn"), str(number.randrange(1 << 30)), NVSHARE_SOCKETS=str(sockets))
        for _ in range(count)
    ]
    for program in programs:
        assert program.stdout
        program.stdout.readline()
    time.sleep(0.01 + number.random() * 0.03)
    held = ledger_total(watcher)
    assert held <= CAP + count * 4 * MIB, f"{held} bytes are counted under a cap of {CAP}"
    for program in programs:
        program.kill()
    for program in programs:
        program.communicate()
    wait_until(lambda: ledger_total(watcher) == 0, within=5, what=f"{ledger_total(watcher)} bytes of the dead")
    return held
