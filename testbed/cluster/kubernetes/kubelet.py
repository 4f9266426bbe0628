"""The kubelet and kube-proxy of a node: their configuration as values, and their processes.

The rule: a setting that differs from a usual node stands with the fact about this machine that forces it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from testbed.cluster import pins
from testbed.cluster.kubernetes import containerd
from testbed.cluster.kubernetes.control_plane import ControlPlane
from testbed.cluster.kubernetes.pki import Pair
from testbed.cluster.machine.processes import Process
from testbed.cluster.machine.sandbox import Sandbox
from testbed.cluster.supplies.build import programs


@dataclass(frozen=True, kw_only=True)
class Place:
    """A node's name, addresses and labels."""

    name: str
    address: str
    pods: str
    cgroup_root: str
    labels: Mapping[str, str]


def configuration(place: Place, *, authority: Path, serving: Pair, nameservers: Sequence[str]) -> dict[str, Any]:
    """Build a KubeletConfiguration."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": place.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
        "cgroupDriver": "cgroupfs",  # there need not be a systemd
        "cgroupRoot": place.cgroup_root,
        "failCgroupV1": False,  # deprecated, but what many machines still have
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        # the disk is the developer's, and its free space says nothing about this node
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "resolvConf": "/etc/resolv.conf",
        # without cluster DNS, the machine's own: otherwise every pod begins with a warning
        "clusterDNS": list(nameservers),
        "clusterDomain": "cluster.local",
        "nodeStatusUpdateFrequency": "2s",
        "serializeImagePulls": False,
        "maxPods": 100,
        "readOnlyPort": 0,
    }


def nameservers(resolv_conf: str) -> list[str]:
    """Return the first three name servers, which is as many as a pod may have."""
    lines = (line.split() for line in resolv_conf.splitlines())
    return [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"][:3]


class Kubelet:
    """A node's kubelet and kube-proxy, as processes that can be restarted."""

    def __init__(self, sandbox: Sandbox, plane: ControlPlane, place: Place) -> None:
        self._sandbox = sandbox
        self._plane = plane
        self._place = place
        self._programs = programs(pins.CONTROL_PLANE, say=lambda _: None)
        self.process = self._kubelet()
        self.proxy = self._proxy()

    def start(self) -> None:
        self.process.start()
        self.proxy.start()

    def _kubelet(self) -> Process:
        place, authority = self._place, self._plane.authority
        serving = authority.vouch_for(f"kubelet-{place.name}", hosts=(place.address, place.name))
        config = self._sandbox.path("/run/kubelet.yaml")
        known = nameservers(Path("/etc/resolv.conf").read_text())
        wanted = configuration(place, authority=authority.certificate, serving=serving, nameservers=known)
        config.write_text(yaml.safe_dump(wanted))
        kubeconfig = self._plane.kubeconfig_for(f"system:node:{place.name}", groups=("system:nodes",))
        command = [
            str(self._programs / "kubelet"),
            "--config=/run/kubelet.yaml",
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={place.name}",
            f"--node-ip={place.address}",
            "--cert-dir=/var/lib/kubelet/pki",
        ]
        if place.labels:
            command.append("--node-labels=" + ",".join(f"{key}={value}" for key, value in place.labels.items()))
        return self._sandbox.process(f"{place.name}-kubelet", command)

    def _proxy(self) -> Process:
        place = self._place
        kubeconfig = self._plane.kubeconfig_for("system:kube-proxy")
        command = [
            str(self._programs / "kube-proxy"),
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={place.name}",
            "--proxy-mode=iptables",
            f"--cluster-cidr={place.pods}",
            # the limits are the machine's, not this network namespace's: writing them is refused
            "--conntrack-max-per-core=0",
            "--conntrack-min=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ]
        return self._sandbox.process(f"{place.name}-kube-proxy", command)
