"""kill -9 at any instruction: the shared file stays whole, and nothing of the killed process is left in it.

The programs spend most of their time inside transactions (short kernels, each waited for, memory that pages), and are
killed at random moments.  The state is checked after every kill.  At the end the record is checked too: no two of its
intervals overlap.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.fakes.gpu_machine import Machine
from tests.runners.drills import Drill, count
from tests.simgpu.kills import kills, kills_while_sharing


def _thousand_kills() -> str:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), "2xT4-16GB", {"record_entries": "4000000"})
        return kills(machine, count(1000))


def _kills_while_sharing() -> str:
    with tempfile.TemporaryDirectory() as folder:
        return kills_while_sharing(Machine(Path(folder)), count(500))


DRILLS = [
    Drill("programs killed at random instructions leave the shared file whole", _thousand_kills),
    Drill("owners and guests of shared memory are killed: the other one goes on, or is told", _kills_while_sharing),
]
