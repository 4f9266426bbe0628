"""What the operator may set: one frozen dataclass, built once in the entry point.

Owns the flags and their grammar; an unknown or odd value is refused with its remedy.  May import `contract`, the
cores' types and the errors; reads no environment by itself.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from contract import names, paths
from contract.errors import BadValue
from contract.sharing.placement import Strategy
from contract.sharing.scoring import Weights
from deviceplugin.core.inventory import Rules
from deviceplugin.errors import BadSetting
from deviceplugin.layout import Layout

MOST_SLOTS = 1000
_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?")
Choice = TypeVar("Choice", bound=StrEnum)


class Inject(StrEnum):
    """How hook, socket and visible GPUs reach a container."""

    AUTO = "auto"
    CDI = "cdi"
    MOUNTS = "mounts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds."""

    rescan: float = 60.0
    """Between two full scans: GPUs that were added are seen then."""
    check: float = 2.0
    """Between two questions whether a GPU answers."""
    quiet: float = 30.0
    """A GPU that was in trouble must be well for so long; each XID in a row doubles it."""
    release: float = 60.0
    """An allocation's folder goes when its slots were not in use for so long."""
    report: float = 2.0
    """Between two writes to the API server at least."""
    others: float = 300.0
    """A GPU of another plugin's is shared when it was not seen for so long: the kubelet itself waits five minutes for a
    plugin that is away."""
    load_fresh: float = 5.0
    """Older load is not believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that `serve` needs to know."""

    layout: Layout = field(default_factory=Layout)
    kubelet_folder: Path = Path(paths.KUBELET_PLUGINS)
    pod_resources_socket: Path = Path(paths.POD_RESOURCES_SOCKET)
    control_socket: Path = Path(paths.NODE_CONTROL_SOCKET)
    """Where the scheduler answers the load query."""
    hook_file: Path = Path(paths.CONTAINER_HOOK)
    """The hook as it came with the image."""
    rules: Rules = field(default_factory=lambda: Rules(slots=names.SLOTS_PER_GPU))
    strategy: Strategy = Strategy.SPREAD
    weights: Weights | None = None
    """None: placement does not look at load."""
    inject: Inject = Inject.AUTO
    most_per_container: int = 0
    """vGPUs of one container at most; 0: as many as there are GPUs."""
    node_name: str = ""
    """Empty: nothing is told to the cluster."""
    kubeconfig: str = ""
    """Empty: KUBECONFIG, else the pod's own service account, else ~/.kube/config."""
    metrics_port: int | None = names.METRICS_PORT
    """None: no metrics; 0: any free port."""
    times: Times = field(default_factory=Times)


_FLAGS: tuple[tuple[str, str, str], ...] = (
    ("--node-root", paths.NODE_ROOT, "our folder on the node, at the same path here"),
    ("--cdi-folder", paths.CDI_SPECS, "where the runtime reads CDI specs"),
    ("--kubelet-folder", paths.KUBELET_PLUGINS, "the kubelet's folder of device plugins"),
    ("--pod-resources-socket", paths.POD_RESOURCES_SOCKET, "the kubelet's pod-resources API"),
    ("--control-socket", paths.NODE_CONTROL_SOCKET, "the scheduler's control socket"),
    ("--hook-file", paths.CONTAINER_HOOK, "libnvshare.so as it came with the image"),
    ("--slots", str(names.SLOTS_PER_GPU), "slots a GPU"),
    ("--strategy", Strategy.SPREAD.value, "which GPU comes first: " + " or ".join(Strategy)),
    (
        "--weights",
        "",
        "load-aware placement: " + ",".join(Weights.default_text()) + " or a part of it; 'default' for all",
    ),
    ("--inject", Inject.AUTO.value, "how a container gets its parts: " + ", ".join(Inject)),
    ("--max-per-container", "0", "vGPUs of one container at most; 0: no limit"),
    (
        "--kubeconfig",
        "",
        "how to reach the API server; empty: KUBECONFIG, else the pod's service account, else ~/.kube/config",
    ),
    ("--metrics-port", str(names.METRICS_PORT), "where /metrics is served; 0: any free port; off: nowhere"),
)
_TIMES: tuple[tuple[str, str], ...] = (
    ("rescan", "between two full scans for GPUs"),
    ("check", "between two questions whether a GPU answers"),
    ("quiet", "a GPU must be well for so long before it is given out again"),
    ("release", "an allocation's folder goes when unused for so long"),
    ("report", "between two writes to the API server at least"),
    ("others", "a GPU that another plugin gave out is shared when it was not seen for so long"),
    ("load-fresh", "older load is not believed"),
)


def add_arguments(parser: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    """The flags of `serve`; all texts, so that one place reads and refuses them."""
    for flag, default, told in _FLAGS:
        parser.add_argument(flag, default=default, help=f"{told} ({default or 'none'})")
    node = environment.get("NODE_NAME", "")
    parser.add_argument(
        "--node-name", default=node, help="this node; empty: nothing is told to the cluster (NODE_NAME)"
    )
    parser.add_argument("--slots-for", action="append", default=[], metavar="GPU=N", help="slots for a UUID or a model")
    parser.add_argument("--exclude", action="append", default=[], metavar="GPU", help="a UUID or model not to share")
    parser.add_argument(
        "--also-mount",
        action="append",
        default=[],
        metavar="HOST:CONTAINER",
        help="a folder in every container, writable",
    )
    parser.add_argument(
        "--also-env", action="append", default=[], metavar="NAME=VALUE", help="a variable in every container"
    )
    for name, told in _TIMES:
        default = getattr(Times(), name.replace("-", "_"))
        parser.add_argument(f"--{name}-seconds", default=str(default), help=f"{told} ({default:g})")


def read_settings(given: argparse.Namespace) -> Settings:
    """The settings that the flags mean."""
    return Settings(
        layout=Layout(
            _absolute(given.node_root, "--node-root"),
            _absolute(given.cdi_folder, "--cdi-folder"),
            tuple(read_also_mount(entry) for entry in given.also_mount),
            tuple(read_also_env(entry) for entry in given.also_env),
        ),
        kubelet_folder=_absolute(given.kubelet_folder, "--kubelet-folder"),
        pod_resources_socket=_absolute(given.pod_resources_socket, "--pod-resources-socket"),
        control_socket=_absolute(given.control_socket, "--control-socket"),
        hook_file=_absolute(given.hook_file, "--hook-file"),
        rules=read_rules(given.slots, given.slots_for, given.exclude),
        strategy=read_choice(Strategy, given.strategy, name="--strategy"),
        weights=_read_weights(given.weights) if given.weights else None,
        inject=read_choice(Inject, given.inject, name="--inject"),
        most_per_container=whole(given.max_per_container, name="--max-per-container", least=0, most=MOST_SLOTS),
        node_name=given.node_name,
        kubeconfig=given.kubeconfig,
        metrics_port=None
        if given.metrics_port == "off"
        else whole(given.metrics_port, name="--metrics-port", least=0, most=65535),
        times=_read_times(given),
    )


def read_rules(slots: str, slots_for: Sequence[str], exclude: Sequence[str]) -> Rules:
    """Which GPUs are shared, and how often."""
    return Rules(
        slots=whole(slots, name="--slots", least=1, most=MOST_SLOTS),
        slots_for=read_slots_for(slots_for),
        exclude=frozenset(part.strip() for entry in exclude for part in entry.split(",") if part.strip()),
    )


def read_slots_for(entries: Sequence[str]) -> dict[str, int]:
    """`MODEL=N` or `UUID=N`, each once."""
    found: dict[str, int] = {}
    for entry in entries:
        key, _, number = entry.rpartition("=")
        if not key.strip():
            raise BadSetting(f"--slots-for {entry!r} is not MODEL=N or UUID=N. Write it as in 'NVIDIA L4=4'.")
        if key.strip() in found:
            raise BadSetting(f"--slots-for names {key.strip()!r} twice. Keep one of them.")
        found[key.strip()] = whole(number, name=f"--slots-for {key.strip()}", least=1, most=MOST_SLOTS)
    return found


def read_also_mount(entry: str) -> tuple[Path, str]:
    """`HOST:CONTAINER`, both from the root on."""
    host, _, container = entry.partition(":")
    _absolute(container, f"--also-mount {entry!r}: the container's side")
    return _absolute(host, f"--also-mount {entry!r}: the node's side"), container


def read_also_env(entry: str) -> tuple[str, str]:
    """`NAME=VALUE`; not a name that is the webhook's or ours to set."""
    name, equals, value = entry.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise BadSetting(f"--also-env {entry!r} is not NAME=VALUE. Write it as in SIMGPU_FILE=/run/simgpu/gpus.")
    if name in (names.ENV_PRELOAD, names.ENV_VISIBLE_DEVICES) or name.startswith("NVSHARE_"):
        raise BadSetting(
            f"--also-env may not set {name}: it would wipe what the pod or an allocation says. Leave it out."
        )
    return name, value


def whole(text: str, *, name: str, least: int, most: int) -> int:
    """A whole number within its bounds."""
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or not least <= int(text) <= most:
        raise BadSetting(f"{name}={text!r} is not allowed. Give a whole number from {least} to {most}.")
    return int(text)


def read_choice(kind: type[Choice], text: str, *, name: str) -> Choice:
    """A word of a list."""
    try:
        return kind(text)
    except ValueError:
        raise BadSetting(f"{name}={text!r} is not allowed. Give one of {', '.join(kind)}.") from None


def _read_times(given: argparse.Namespace) -> Times:
    found: dict[str, float] = {}
    for name, _ in _TIMES:
        key = name.replace("-", "_")
        text = getattr(given, f"{key}_seconds")
        if not _SECONDS.fullmatch(text) or float(text) <= 0:
            raise BadSetting(f"--{name}-seconds={text!r} is not allowed. Give seconds above 0, such as 0.5 or 30.")
        found[key] = float(text)
    return Times(**found)


def _absolute(text: str, name: str) -> Path:
    path = Path(text)
    if not path.is_absolute():
        raise BadSetting(f"{name}={text!r} is not an absolute path. Write it from the root on.")
    return path


def _read_weights(text: str) -> Weights:
    try:
        return Weights.read(text)
    except BadValue as error:
        raise BadSetting(f"--{error}") from None
