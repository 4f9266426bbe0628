"""What a cluster could leave on a machine, as a set of lines, for the test that it leaves nothing.

The rule: everything that a run can make is listed.  Lines of other runs at the same time are known by those runs'
names.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from testbed.cluster import cache
from testbed.cluster.machine import cgroups
from testbed.cluster.machine.processes import MARK

_NAMES = re.compile(r"guard-([0-9a-f]{6})|nvg([0-9a-f]{6})|nvshare-guard-\d+/([0-9a-f]{6})|" + MARK + r"=([0-9a-f]{6})")


def machine() -> set[str]:
    """List processes, mounts, links, routes, rules, named network namespaces, control groups and run folders."""
    return {line for kind in (_processes, _mounts, _network, _rules, _groups) for line in kind()}


def without_other_runs(lines: set[str], ours: set[str]) -> set[str]:
    """Return the lines, without lines that name only other runs."""
    return {line for line in lines if not names_a_run(line) or _named(line) & ours}


def names_a_run(line: str) -> bool:
    return bool(_named(line))


def _named(line: str) -> set[str]:
    return {name for names in _NAMES.findall(line) for name in names if name}


def _processes() -> Iterator[str]:
    """Yield processes with a run's mark, or in a run's control group (containers carry no mark)."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                about = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
                about += (entry / "cgroup").read_text().splitlines()
                command = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            if named := set().union(*map(_named, [word for word in about if MARK in word or "guard-" in word])):
                yield f"process {entry.name} {' '.join(f'guard-{name}' for name in sorted(named))} {command}"


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        folder = line.split()[4]
        if not folder.startswith(str(cache.root())):  # building an image mounts and unmounts there
            yield f"mount {folder}"


def _network() -> Iterator[str]:
    for what in ("link", "address", "route", "netns"):
        for line in _lines("ip", "-brief", what) if what != "netns" else _lines("ip", "netns"):
            yield f"{what} {line}"


def _rules() -> Iterator[str]:
    for command in (("iptables-save",), ("ip6tables-save",), ("ip", "rule")):
        yield from (f"rule {line}" for line in _lines(*command) if not line.startswith("#"))


def _groups() -> Iterator[str]:
    for hierarchy in cgroups.hierarchies():
        for group in hierarchy.rglob("*/"):
            if "guard-" in str(group) or "k8s.io" in str(group) or "kubepods" in str(group):
                yield f"control group {group}"


def _lines(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
