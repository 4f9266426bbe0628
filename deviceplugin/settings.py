"""The operator's settings: one table of options, and the frozen dataclass that is built from it at the start.

`adapters.options` reads the table.  Values that several options make together are built here.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from adapters.options import ABSOLUTE_PATH, AUTO_OR_PATH, PORT, TEXT, Kind, Option, Table, one_of, read_text, whole
from contract.sharing.placement import Strategy
from contract.sharing.scoring import Weights
from contract.words import names, paths
from contract.words.node import DevicesFrom
from deviceplugin.core.inventory import Rules
from deviceplugin.errors import BadSetting
from deviceplugin.layout import Layout

MAX_SLOTS = 1000
SLOTS = whole(1, MAX_SLOTS)
STRATEGY = one_of(tuple(Strategy), Strategy)
_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?", re.ASCII)


class Inject(StrEnum):
    """How hook, socket and visible GPUs reach a container."""

    AUTO = "auto"
    CDI = "cdi"
    MOUNTS = "mounts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds."""

    rescan: float = 60.0
    """Between two full scans; added GPUs are found then."""
    check: float = 2.0
    """Between two questions whether a GPU answers."""
    quiet: float = 30.0
    """A GPU that was in trouble must be well for this time; each XID in a row doubles it."""
    release: float = 60.0
    """An allocation's folder is removed when its slots were not in use for this time."""
    report: float = 2.0
    """Between two writes to the API server at least."""
    others: float = 300.0
    """A GPU of another plugin is shared when the kubelet did not show it for this time.  The kubelet itself waits five
    minutes for a plugin that is away."""
    load_fresh: float = 5.0
    """Older load is not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that `serve` needs to know."""

    layout: Layout = field(default_factory=Layout)
    kubelet_folder: Path = Path(paths.KUBELET_PLUGINS)
    pod_resources_socket: Path = Path(paths.POD_RESOURCES_SOCKET)
    control_socket: Path = Path(paths.NODE_CONTROL_SOCKET)
    """Where the scheduler answers the load query."""
    static_cdi_folder: Path = Path(paths.STATIC_CDI_SPECS)
    """Where NVIDIA's CDI specs may lie besides `layout.cdi`; only read."""
    devices: DevicesFrom | None = None
    """Where containers' device nodes come from; None: whatever is found."""
    hook_file: Path = Path(paths.CONTAINER_HOOK)
    """The hook that came with the image."""
    rules: Rules = field(default_factory=lambda: Rules(slots=names.SLOTS_PER_GPU))
    strategy: Strategy = Strategy.SPREAD
    weights: Weights | None = None
    """None: placement does not look at load."""
    inject: Inject = Inject.AUTO
    max_per_container: int = 0
    """The most vGPUs of one container; 0: as many as there are GPUs."""
    driver_root: Path | None = None
    """Where NVIDIA's driver lies; None: as the loader finds it, else the usual roots are searched."""
    node_name: str = ""
    """Empty: the plugin sends nothing to the cluster."""
    kubeconfig: str = ""
    """Empty: KUBECONFIG, else the pod's own service account, else ~/.kube/config."""
    metrics_port: int | None = names.METRICS_PORT
    """None: no metrics; 0: any free port."""
    health_socket: Path | None = Path(paths.DEVICE_PLUGIN_HEALTH_SOCKET)
    """Where probes ask; None: no such socket."""
    times: Times = field(default_factory=Times)


def _seconds(text: str) -> float:
    if not _SECONDS.fullmatch(text) or float(text) <= 0:
        raise ValueError(text)
    return float(text)


def _port_or_off(text: str) -> int | None:
    return None if text == "off" else PORT.read(text)


def _weights(text: str) -> Weights | None:
    return Weights.read(text) if text else None


def _path_or_off(text: str) -> Path | None:
    return None if text == "off" else ABSOLUTE_PATH.read(text)


_WEIGHTS = Kind("weights such as " + ",".join(Weights.default_text()) + ", a part of them, or default", _weights)
_METRICS = Kind(f"{PORT.form}, or off", _port_or_off)
_TIMES: tuple[tuple[str, str], ...] = (
    ("rescan", "between two full scans for GPUs"),
    ("check", "between two checks that a GPU answers"),
    ("quiet", "a GPU must be well for this time before it gets new containers"),
    ("release", "an allocation's folder is removed when unused for this time"),
    ("report", "the shortest time between two writes to the API server"),
    ("others", "a GPU of another plugin is shared when it was not seen for this time"),
    ("load_fresh", "older load is not used"),
)
_AUTO = "auto"
DEVICES = one_of(
    (_AUTO, *(source for source in DevicesFrom if source is not DevicesFrom.REFUSED)),
    lambda text: None if text == _AUTO else DevicesFrom(text),
)
HEALTH_SOCKET = Option(
    "health_socket",
    Kind(f"{ABSOLUTE_PATH.form}, or off", _path_or_off),
    paths.DEVICE_PLUGIN_HEALTH_SOCKET,
    "where `healthz` asks",
)
DRIVER_ROOT = Option("driver_root", AUTO_OR_PATH, "auto", "the root below which NVIDIA's driver lies")
OPTIONS: tuple[Option, ...] = (
    Option("node_root", ABSOLUTE_PATH, paths.NODE_ROOT, "our folder on the node, at the same path here"),
    Option("cdi_folder", ABSOLUTE_PATH, paths.CDI_SPECS, "where the runtime reads CDI specs"),
    Option("static_cdi_folder", ABSOLUTE_PATH, paths.STATIC_CDI_SPECS, "where NVIDIA's CDI specs may lie too"),
    Option("kubelet_folder", ABSOLUTE_PATH, paths.KUBELET_PLUGINS, "the kubelet's folder of device plugins"),
    Option("pod_resources_socket", ABSOLUTE_PATH, paths.POD_RESOURCES_SOCKET, "the kubelet's pod-resources API"),
    Option("control_socket", ABSOLUTE_PATH, paths.NODE_CONTROL_SOCKET, "the scheduler's control socket"),
    Option("hook_file", ABSOLUTE_PATH, paths.CONTAINER_HOOK, "libnvshare.so as it came with the image"),
    DRIVER_ROOT,
    Option("slots", SLOTS, str(names.SLOTS_PER_GPU), "slots a GPU"),
    Option("slots_for", TEXT, "", "slots for a UUID or a model, as in 'NVIDIA L4=4'", many=True),
    Option("exclude", TEXT, "", "UUIDs or models not to share, with commas between them", many=True),
    Option("strategy", STRATEGY, Strategy.SPREAD, "which GPU comes first"),
    Option("weights", _WEIGHTS, "", "place by load too; without it by count only"),
    Option("inject", one_of(tuple(Inject), Inject), Inject.AUTO, "how hook, socket and GPUs reach a container"),
    Option("devices", DEVICES, _AUTO, "where the GPUs' device nodes and driver files come from"),
    Option("max_per_container", whole(0, MAX_SLOTS), "0", "most vGPUs of one container; 0: no limit"),
    Option("also_mount", TEXT, "", "HOST:CONTAINER, a folder in every container, writable", many=True),
    Option("also_env", TEXT, "", "NAME=VALUE, a variable in every container", many=True),
    Option("node_name", TEXT, "", "this node's name; empty: nothing is sent to the cluster", variable="NODE_NAME"),
    Option(
        "kubeconfig",
        TEXT,
        "",
        "how to reach the API server; empty: KUBECONFIG, else the pod's service account, else ~/.kube/config",
    ),
    Option("metrics_port", _METRICS, str(names.METRICS_PORT), "where /metrics is served; 0 takes a free one"),
    HEALTH_SOCKET,
    *(
        Option(
            f"{name}_seconds", Kind("seconds above 0, such as 0.5 or 30", _seconds), f"{getattr(Times(), name):g}", told
        )
        for name, told in _TIMES
    ),
)
TABLE = Table("NVSHARE_DEVICE_PLUGIN_", OPTIONS, BadSetting)


def read_settings(flags: Mapping[str, Any], environ: Mapping[str, str], file: Mapping[str, Any]) -> Settings:
    """Return the settings: a flag beats the environment, which beats the file."""
    return build(TABLE.read(flags, environ, file))


def build(values: Mapping[str, Any]) -> Settings:
    """Build the settings from the table's values."""
    return Settings(
        layout=Layout(
            values["node_root"],
            values["cdi_folder"],
            tuple(read_also_mount(entry) for entry in values["also_mount"]),
            tuple(read_also_env(entry) for entry in values["also_env"]),
        ),
        rules=read_rules(values["slots"], values["slots_for"], values["exclude"]),
        max_per_container=values["max_per_container"],
        times=Times(**{name: values[f"{name}_seconds"] for name, _ in _TIMES}),
        **{name: values[name] for name in _AS_THEY_ARE},
    )


_AS_THEY_ARE = (
    *("kubelet_folder", "pod_resources_socket", "control_socket", "hook_file", "driver_root"),
    *("static_cdi_folder", "devices"),
    *("strategy", "weights", "inject", "node_name", "kubeconfig", "metrics_port", "health_socket"),
)


def read_health_socket(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Path:
    """Return the path by which a probe and the plugin find each other."""
    path: Path | None = TABLE.read_one(HEALTH_SOCKET, flags, environ, {})
    if path is None:
        raise BadSetting("there is no socket to ask: --health-socket is off. Give it the path that `serve` has.")
    return path


def read_rules(slots: int, slots_for: Sequence[str], exclude: Sequence[str]) -> Rules:
    """Return which GPUs are shared, and with how many slots."""
    return Rules(
        slots=slots,
        slots_for=read_slots_for(slots_for),
        exclude=frozenset(part.strip() for entry in exclude for part in entry.split(",") if part.strip()),
    )


def read_slots_for(entries: Sequence[str]) -> dict[str, int]:
    """Read entries `MODEL=N` or `UUID=N`; refuse one that stands twice."""
    found: dict[str, int] = {}
    for entry in entries:
        key, _, number = entry.rpartition("=")
        if not key.strip():
            raise BadSetting(f"--slots-for {entry!r} is not MODEL=N or UUID=N. Write it as in 'NVIDIA L4=4'.")
        if key.strip() in found:
            raise BadSetting(f"--slots-for names {key.strip()!r} twice. Keep one of them.")
        found[key.strip()] = read_text(SLOTS, number, way=f"--slots-for {key.strip()}", error=BadSetting)
    return found


def read_also_mount(entry: str) -> tuple[Path, str]:
    """Read `HOST:CONTAINER`, two absolute paths."""
    host, _, container = entry.partition(":")
    _absolute(container, f"--also-mount {entry!r}: the container's side")
    return _absolute(host, f"--also-mount {entry!r}: the node's side"), container


def read_also_env(entry: str) -> tuple[str, str]:
    """Read `NAME=VALUE`; refuse a name that the webhook or this plugin sets."""
    name, equals, value = entry.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise BadSetting(f"--also-env {entry!r} is not NAME=VALUE. Write it as in SIMGPU_FILE=/run/simgpu/gpus.")
    if name in (names.ENV_PRELOAD, names.ENV_VISIBLE_DEVICES) or name.startswith("NVSHARE_"):
        raise BadSetting(
            f"--also-env may not set {name}: it would overwrite what the pod or an allocation sets. Leave it out."
        )
    return name, value


def _absolute(text: str, way: str) -> Path:
    path: Path = read_text(ABSOLUTE_PATH, text, way=way, error=BadSetting)
    return path
