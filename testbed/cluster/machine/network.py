"""The network of one run: a bridge on this machine, a cable to each node, addresses for pods and services.

The rule: every address follows from the run's subnet, and every name from the run's name.  What lies in a node's own
network namespace ends with it, so only the bridge has to be removed.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from testbed.cluster import cache
from testbed.cluster.errors import BrokenError
from testbed.cluster.machine.runs import Run
from testbed.cluster.shell import run_command, succeeds

FIRST_SUBNET = 100
SUBNETS = 90
"""How many clusters may have a network at once: each has 10.<100 + subnet>.0.0/16 for itself."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """10.<100 + subnet>.0.0/16: the machine and the nodes in .0, pods from .16, services from .240 on."""

    subnet: int = 0

    @property
    def _prefix(self) -> str:
        return f"10.{FIRST_SUBNET + self.subnet}"

    @property
    def machine(self) -> str:
        """The address of this machine (the API server, webhooks under test) from nodes and pods."""
        return f"{self._prefix}.0.1"

    def node(self, number: int) -> str:
        return f"{self._prefix}.0.{10 + number}"

    def pods(self, number: int) -> str:
        return f"{self._prefix}.{16 + number}.0/24"

    @property
    def all(self) -> str:
        return f"{self._prefix}.0.0/16"

    @property
    def all_pods(self) -> str:
        return f"{self._prefix}.0.0/17"

    @property
    def services(self) -> str:
        return f"{self._prefix}.240.0/20"

    @property
    def first_service(self) -> str:
        return f"{self._prefix}.240.1"


def bridge_name(run: Run) -> str:
    return f"nvg{run.name}"


def lay_bridge(run: Run) -> Addresses:
    """Make the bridge, with this machine's address on it."""
    bridge = bridge_name(run)
    # under a lock, so that the route which marks a subnet as taken exists before the next run looks
    with cache.locked(cache.root() / "network.lock"):
        addresses = Addresses(_free_subnet())
        run_command("ip", "link", "add", bridge, "type", "bridge")
        run_command("ip", "address", "add", f"{addresses.machine}/24", "dev", bridge)
        run_command("ip", "link", "set", bridge, "up")
    return addresses


def _free_subnet() -> int:
    """Find the first subnet that this machine routes nowhere yet: neither another run nor a real network uses it."""
    taken = routed_subnets(Path("/proc/net/route").read_text())
    free = next((subnet for subnet in range(SUBNETS) if subnet not in taken), None)
    if free is None:
        raise BrokenError("every network from 10.100.0.0/16 to 10.189.0.0/16 is in use", "list them: ip route")
    return free


def routed_subnets(table: str) -> set[int]:
    """Return the subnets (by our numbers) in the kernel's routing table."""
    # the second column is the destination in the machine's byte order: 0000650A is 10.101.0.0
    destinations = (bytes.fromhex(line.split()[1])[::-1] for line in table.splitlines()[1:])
    return {address[1] - FIRST_SUBNET for address in destinations if address[0] == 10}


def remove_links(run: Run) -> None:
    """Remove the bridge, and the cables' ends on it.

    A dead node's network namespace may take a while to let go of its own end.
    """
    for link in Path("/sys/class/net").glob(f"{bridge_name(run)}*"):
        if not succeeds("ip", "link", "delete", link.name) and link.exists():
            raise BrokenError(f"the link {link.name} cannot be removed", f"ip link delete {link.name}")


def connect_node(run: Run, addresses: Addresses, number: int, init_pid: int, *, nodes: int) -> None:
    """Lay a cable from the bridge into the node's network namespace, and routes to the pods at both ends."""
    cable = f"{bridge_name(run)}n{number}"
    run_command("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(init_pid))
    run_command("ip", "link", "set", cable, "master", bridge_name(run), "up")
    inside = ("nsenter", "--target", str(init_pid), "--net", "--mount", "--")
    run_command(*inside, "ip", "link", "set", "lo", "up")
    run_command(*inside, "ip", "address", "add", f"{addresses.node(number)}/24", "dev", "eth0")
    run_command(*inside, "ip", "link", "set", "eth0", "up")
    # services need a route before kube-proxy's rules apply; the rest of the world is unreachable, at once:
    # a wrong image name is then an error, and not a minute of waiting for a name server
    run_command(*inside, "ip", "route", "add", addresses.all, "via", addresses.machine)
    run_command(*inside, "ip", "route", "add", "unreachable", "default")
    run_command(*inside, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    for other in range(nodes):
        if other != number:
            run_command(*inside, "ip", "route", "add", addresses.pods(other), "via", addresses.node(other))
    run_command("ip", "route", "add", addresses.pods(number), "via", addresses.node(number))
    if number == 0:  # the API server calls webhooks by their service's address: the first node's kube-proxy translates
        run_command("ip", "route", "add", addresses.services, "via", addresses.node(number))


def write_cni(folder: Path, pods: str) -> None:
    """Write the CNI chain: each pod gets a cable to the node, an address of the node's range, and its host ports."""
    folder.mkdir(parents=True, exist_ok=True)
    addresses = {"type": "host-local", "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}]}
    plugins = [
        {"type": "ptp", "ipMasq": False, "ipam": addresses},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    chain = {"cniVersion": "1.0.0", "name": "guard", "plugins": plugins}
    (folder / "10-guard.conflist").write_text(json.dumps(chain))
