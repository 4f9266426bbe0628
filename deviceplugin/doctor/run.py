"""`doctor`: gather the facts of this node, judge them, and print a line each.

The module owns what is looked at from where.  In a pod the node's own files are seen where its root is mounted at
/host; outside of a pod this machine is the node.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from adapters import driver_files
from deviceplugin.core.doctor import findings
from deviceplugin.core.doctor.facts import Facts
from deviceplugin.core.doctor.findings import Finding
from deviceplugin.core.doctor.gpu_checks import names_needed
from deviceplugin.core.doctor.table import examine
from deviceplugin.doctor.cluster import ask_cluster
from deviceplugin.doctor.devices import look_at_cdi
from deviceplugin.doctor.gpus import ask_nvml, look_at_nodes
from deviceplugin.doctor.node import look_at_kubelet, look_at_ours
from deviceplugin.doctor.runtime import look_at_runtime
from deviceplugin.node.kind import read_kind
from deviceplugin.settings import Settings

_IN_A_POD = "KUBERNETES_SERVICE_HOST"
OK, FAULTS = 0, 1


def node_root(environ: Mapping[str, str], mount: Path = driver_files.NODE_MOUNT) -> Path | None:
    """Return where the node's root is seen; None where it is not."""
    here = None if _IN_A_POD in environ else Path("/")
    return driver_files.find_mounted_node(mount) or here


def gather(settings: Settings, environ: Mapping[str, str]) -> Facts:
    """Return all facts; nothing on the node is changed."""
    root = node_root(environ)
    nvml = ask_nvml(settings.driver_root)
    answer = ask_cluster(settings.node_name, settings.kubeconfig)
    needed = names_needed(nvml.gpus)
    return Facts(
        kind=read_kind(),
        sees_node=root is not None,
        nvml=nvml,
        here=look_at_nodes(needed, Path("/")),
        on_node=None if root is None else look_at_nodes(needed, root),
        cdi=look_at_cdi(settings, nvml.gpus, answer, root),
        runtime=look_at_runtime(answer, root),
        cluster=answer.facts,
        kubelet=look_at_kubelet(settings),
        ours=look_at_ours(settings),
    )


def render(found: tuple[Finding, ...], *, as_json: bool) -> Iterator[str]:
    """Yield the report's lines."""
    if as_json:
        yield json.dumps(findings.as_json(found), indent=2)
        return
    yield from (finding.line() for finding in found)
    yield findings.summary(found)


def examine_node(settings: Settings, *, as_json: bool) -> int:
    """Print the report; return 0 where all is well, 1 where something is missing or wrong."""
    found = examine(gather(settings, os.environ))
    print("\n".join(render(found, as_json=as_json)))
    return FAULTS if findings.has_faults(found) else OK
