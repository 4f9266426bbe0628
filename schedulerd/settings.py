"""What the operator decides: one table of settings, each a flag and an environment variable, with its unit and reason.

A flag goes before the variable, the variable before the default; a value outside its form is refused with what would be
right.  May import the contract, this room's model and errors only.
"""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from contract import names, paths
from contract.errors import BadQuantity
from contract.grammar import read_memory_bytes, read_quantum_ms
from schedulerd.core.model import Rules
from schedulerd.errors import Unusable
from schedulerd.policies import POLICIES

ENV_PREFIX = "NVSHARE_SCHEDULERD_"
PROBES = ("healthz", "readyz")


class Identity(StrEnum):
    """Where the daemon knows a container from."""

    FOLDERS = "folders"
    """The socket it can reach; the cluster says the rest."""
    NONE = "none"
    """Stand-alone: one shared socket, the client is believed."""


class Observer(StrEnum):
    """How the second process comes to be."""

    SPAWN = "spawn"
    NONE = "none"
    """Somebody else starts `nvshare-schedulerd observe`: another container of the pod, an init system."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its flag without the dashes, its default as text, what it may be, how it is read, what it is for."""

    flag: str
    default: str
    form: str
    read: Callable[[str], object]
    why: str

    @property
    def variable(self) -> str:
        return ENV_PREFIX + self.flag.upper().replace("-", "_")

    @property
    def attribute(self) -> str:
        return self.flag.replace("-", "_")


def _seconds(text: str) -> float:
    return read_quantum_ms(text) / 1000


def _auto_or_seconds(text: str) -> float | None:
    return None if text == "auto" else _seconds(text)


def _one_of(allowed: Sequence[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return read


def _rate(text: str) -> float:
    return float(read_memory_bytes(text))


def _size(text: str) -> int:
    return 0 if text == "0" else read_memory_bytes(text)


def _percent(text: str) -> float:
    value = float(text.removesuffix("%"))
    if not text.endswith("%") or not 0.1 <= value <= 50:
        raise ValueError(text)
    return value / 100


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise ValueError(text)
    return port


_TIME = "a duration from 1ms to 3600s, such as 500ms or 30s"
_BYTES = "a whole Kubernetes quantity of bytes, such as 256Mi"
_PATH = "a path"

SETTINGS: tuple[Setting, ...] = (
    Setting("identity", "folders", " or ".join(Identity), Identity, "where containers are known from"),
    Setting("sockets", paths.NODE_SOCKETS, _PATH, Path, "folder of the shared socket (--identity=none)"),
    Setting("allocations", paths.NODE_ALLOCATIONS, _PATH, Path, "folder of the allocations' folders"),
    Setting("control", paths.NODE_CONTROL_SOCKET, _PATH, Path, "socket of nvsharectl, the load query and the observer"),
    Setting("policy", "fair", " or ".join(POLICIES), _one_of(tuple(POLICIES)), "who goes first"),
    Setting("quantum", "auto", f"auto, or {_TIME}", _auto_or_seconds, "a turn; auto adapts to what a switch costs"),
    Setting("shortest-turn", "100ms", _TIME, _seconds, "a turn where switching is cheap"),
    Setting("longest-turn", "180s", _TIME, _seconds, "a turn where switching is as dear as can be"),
    Setting("switching-share", "2%", "a percentage from 0.1% to 50%", _percent, "GPU time that switching may cost"),
    Setting("paging-rate", "5G", _BYTES, _rate, "bytes a second at which a working set moves to the card"),
    Setting("side-by-side", "when-it-fits", "when-it-fits or never", _one_of(("when-it-fits", "never")), "company"),
    Setting("card-reserve", "256Mi", _BYTES, _size, "left free on a card that containers share side by side"),
    Setting("context-size", "300Mi", _BYTES, _size, "what a process's context takes on a card"),
    Setting("grace", "5s", _TIME, _seconds, "from being asked to yield to being shut out"),
    Setting("announce", "2s", _TIME, _seconds, "how long a holder goes on without a daemon"),
    Setting("keep", "5ms", _TIME, _seconds, "how long a wanted holder may be idle"),
    Setting("observer", "spawn", " or ".join(Observer), Observer, "who starts the second process"),
    Setting("metrics-port", str(names.METRICS_PORT), "a port, 0 for any free one", _port, "HTTP: /metrics, /healthz"),
    Setting("pod-resources", paths.POD_RESOURCES_SOCKET, _PATH, Path, "the kubelet's pod-resources socket"),
    Setting("node", "", "the node's name", str, "whose pods to watch; empty: do not ask the API"),
    Setting("log-level", "info", "debug, info or warning", _one_of(("debug", "info", "warning")), "how much is said"),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings, read; the fields are those of the table."""

    identity: Identity
    sockets: Path
    allocations: Path
    control: Path
    policy: str
    quantum: float | None
    shortest_turn: float
    longest_turn: float
    switching_share: float
    paging_rate: float
    side_by_side: str
    card_reserve: int
    context_size: int
    grace: float
    announce: float
    keep: float
    observer: Observer
    metrics_port: int
    pod_resources: Path
    node: str
    log_level: str

    def rules(self) -> Rules:
        """What of it the core must know."""
        return Rules(
            policy=POLICIES[self.policy],
            quantum=self.shortest_turn,
            fixed_quantum=self.quantum,
            longest_quantum=max(self.longest_turn, self.shortest_turn),
            switching_share=self.switching_share,
            paging_rate=self.paging_rate,
            side_by_side=self.side_by_side == "when-it-fits",
            card_reserve=self.card_reserve,
            context_bytes=self.context_size,
            grace=self.grace,
            announce=self.announce,
            keep=self.keep,
        )

    def words(self) -> str:
        """All of it in one line, for the log."""
        return " ".join(f"{one.flag}={getattr(self, one.attribute)}" for one in SETTINGS)


def build_parser() -> ArgumentParser:
    """The command line; values stay text until `read_settings`, so that flags and variables are refused alike."""
    parser = ArgumentParser(
        prog="nvshare-schedulerd",
        formatter_class=RawDescriptionHelpFormatter,
        description="Decides which container uses which GPU now.",
        epilog=f"Each flag can be given as a variable too: --policy is {ENV_PREFIX}POLICY.",
    )
    parser.add_argument(
        "part",
        nargs="?",
        default="turns",
        choices=("turns", "observe", *PROBES),
        help="turns: the turn loop (default); observe: NVML, the cluster and metrics, in a process of its own; "
        "healthz, readyz: ask whether the turn loop answers, and whether the observer is there too",
    )
    for one in SETTINGS:
        default = one.default or "not set"
        text = f"{one.why}; {one.form} (default: {default})".replace("%", "%%")
        parser.add_argument(f"--{one.flag}", metavar="VALUE", help=text)
    return parser


def read_settings(flags: Namespace, environ: Mapping[str, str]) -> Settings:
    """The settings that flags and environment mean."""
    unknown = sorted(set(_ours(environ)) - {one.variable for one in SETTINGS})
    if unknown:
        raise Unusable(f"{unknown[0]} is not a setting. There are: {', '.join(one.variable for one in SETTINGS)}.")
    values = {one.attribute: _value(one, flags, environ) for one in SETTINGS}
    return Settings(**values)  # type: ignore[arg-type]  # the table's readers give each field its type


def _ours(environ: Mapping[str, str]) -> list[str]:
    return [name for name in environ if name.startswith(ENV_PREFIX)]


def _value(one: Setting, flags: Namespace, environ: Mapping[str, str]) -> object:
    flag = getattr(flags, one.attribute)
    source = f"--{one.flag}" if flag is not None else one.variable
    text = flag if flag is not None else environ.get(one.variable, one.default)
    try:
        return one.read(text)
    except (ValueError, BadQuantity):
        raise Unusable(f"{source}={text[:80]!r} is not allowed. It must be {one.form}.") from None
