"""Programs killed at random instructions, and the shared file checked after each.

The programs spend most of their time inside transactions: short kernels, each waited for, and memory that pages.
At the end no interval of the record lies over another.

`kills_while_sharing` kills owners of shared memory and events, and their guests: whoever is left goes on or is told.
"""

from __future__ import annotations

import itertools
import random
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.fakes.gpu_machine import BUILD, Machine

LOADS = (
    ("--kernel-ms", "0.01", "--seconds", "60"),
    ("--kernel-ms", "0.05", "--seconds", "60", "--devices", "0,1", "--managed-mb", "9000"),
    ("--kernel-ms", "1", "--seconds", "60", "--batch", "8", "--devices", "1", "--plain-mb", "2000"),
    ("--kernel-ms", "0.02", "--seconds", "60", "--devices", "0,1", "--together", "2"),
)


@dataclass
class Crowd:
    """Some programs at work; the one killed is replaced."""

    machine: Machine
    dice: random.Random
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def add(self) -> None:
        arguments = self.dice.choice(LOADS)
        environment = self.machine.environment()
        self.programs.append(
            subprocess.Popen(
                [BUILD / "burn", *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )

    def kill_one(self) -> None:
        program = self.programs.pop(self.dice.randrange(len(self.programs)))
        program.kill()
        program.wait()


def _nothing_is_left(machine: Machine) -> str:
    status = machine.tool("status").stdout
    left = [row for row in status.splitlines() if "pid" in row]
    assert not left, f"contexts of the killed are still there:\n{status}"
    assert "free 16384 MiB" in status, status
    return status


def check_record(machine: Machine) -> int:
    """Check that no two intervals of a device overlap and all are in order; return how many there are."""
    record, total = machine.record(), 0
    assert record.lost() == 0, "the record wrapped: nothing can be said about what was overwritten"
    for card in record.cards:
        intervals = record.intervals(card.index)
        total += len(intervals)
        for before, after in itertools.pairwise(intervals):
            assert before.start <= before.end <= after.start + 1e-9, (before, after)
    return total


def kills(machine: Machine, number: int, seed: int = 1) -> str:
    """Kill so many programs under load, with a check after each."""
    crowd = Crowd(machine, random.Random(seed))
    began = time.monotonic()
    for _ in range(3):
        crowd.add()
    try:
        for _ in range(number):
            crowd.add()
            time.sleep(crowd.dice.random() * 0.04)  # the moment of the kill is what is drawn by lot
            crowd.kill_one()
            checked = machine.tool("check")
            assert checked.returncode == 0, checked.stderr
    finally:
        while crowd.programs:
            crowd.kill_one()
    _nothing_is_left(machine)
    intervals = check_record(machine)
    return f"{number} kills in {time.monotonic() - began:.0f} s, {intervals} intervals, none overlapping, nothing left"


def kills_while_sharing(machine: Machine, number: int, seed: int = 1) -> str:
    """Kill the owner of shared memory, or its guest, so many times; the other one must go on or be told."""
    program, dice, began = _sharing(machine.folder), random.Random(seed), time.monotonic()
    told = 0
    for _ in range(number):
        environment, pipe = machine.environment(), subprocess.PIPE
        with (
            subprocess.Popen([program, "own"], env=environment, stdout=pipe, stderr=pipe) as owner,
            subprocess.Popen([program, "use"], env=environment, stdin=owner.stdout, stderr=pipe) as guest,
        ):
            time.sleep(dice.random() * 0.05)  # the moment of the kill is what is drawn by lot
            if dice.random() < 0.3:
                guest.kill()
                guest.wait()
                assert owner.poll() is None, owner.stderr and owner.stderr.read()
            owner.kill()
            code = guest.wait(10)
            assert code in (0, 3, -9), guest.stderr and guest.stderr.read()
            told += code == 0
    assert machine.tool("check").returncode == 0
    _nothing_is_left(machine)
    return f"{number} rounds in {time.monotonic() - began:.0f} s, {told} guests were told, nothing left"


def _sharing(folder: Path) -> Path:
    program = folder / "sharing"
    source = Path(__file__).with_name("programs") / "sharing.c"
    subprocess.run(["gcc", "-O2", source, "-o", program, f"-L{BUILD}", "-lcuda"], check=True)
    return program
