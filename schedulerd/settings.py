"""The settings of the daemon: one table with a row for each setting.

The rule it owns: each setting has its unit and reason in the table.  `adapters.options` reads the table; `--help` and
the README list the same rows.
"""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from adapters.options import AUTO_OR_PATH, PATH, PORT, TEXT, Kind, Option, Table, one_of
from contract.wire.control import AskHealth, AskReadiness, Request
from contract.words import names, paths
from contract.words.grammar import read_memory_bytes, read_quantum_ms
from schedulerd.core.model import Rules
from schedulerd.errors import Unusable
from schedulerd.policies import POLICIES

ENV_PREFIX = "NVSHARE_SCHEDULERD_"
PROBES: dict[str, Request] = {"healthz": AskHealth(), "readyz": AskReadiness()}
"""The parts that ask a running daemon, and what they ask."""


class Identity(StrEnum):
    """The source from which the daemon knows containers."""

    FOLDERS = "folders"
    """The allocation's socket that a client can reach.  The cluster adds the rest."""
    NONE = "none"
    """Stand-alone: there is one shared socket, and the client is believed."""


class Observer(StrEnum):
    """The way in which the second process is started."""

    SPAWN = "spawn"
    NONE = "none"
    """Another container of the pod, or an init system, starts `nvshare-schedulerd observe`."""


def _seconds(text: str) -> float:
    return read_quantum_ms(text) / 1000


def _auto_or_seconds(text: str) -> float | None:
    return None if text == "auto" else _seconds(text)


def _rate(text: str) -> float:
    return float(read_memory_bytes(text))


def _size(text: str) -> int:
    return 0 if text == "0" else read_memory_bytes(text)


def _percent(text: str) -> float:
    value = float(text.removesuffix("%"))
    if not text.endswith("%") or not 0.1 <= value <= 50:
        raise ValueError(text)
    return value / 100


_DURATION = "a duration from 1ms to 3600s, such as 500ms or 30s"
_QUANTITY = "a whole Kubernetes quantity of bytes, such as 256Mi"
_TIME = Kind(_DURATION, _seconds)
_TIME_OR_0 = Kind(f"0, or {_DURATION}", lambda text: 0.0 if text == "0" else _seconds(text))
_BYTES = Kind(_QUANTITY, _size)
_POLICY = one_of(tuple(POLICIES))
_SIDE_BY_SIDE = one_of(("when-it-fits", "never"))
_LEVEL = one_of(("debug", "info", "warning"))
_SHARE = Kind("a percentage from 0.1% to 50%", _percent)

OPTIONS: tuple[Option, ...] = (
    Option("identity", one_of(tuple(Identity), Identity), Identity.FOLDERS, "where containers are known from"),
    Option("sockets", PATH, paths.NODE_SOCKETS, "folder of the shared socket (--identity=none)"),
    Option("allocations", PATH, paths.NODE_ALLOCATIONS, "folder of the allocations' folders"),
    Option("control", PATH, paths.NODE_CONTROL_SOCKET, "socket of nvsharectl, the load query and the observer"),
    Option("policy", _POLICY, "fair", "who goes first"),
    Option("quantum", Kind(f"auto, or {_DURATION}", _auto_or_seconds), "auto", "a turn; auto adapts to switches"),
    Option("shortest_turn", _TIME, "100ms", "a turn where switching is cheap"),
    Option("longest_turn", _TIME, "180s", "a turn where switching is as dear as can be"),
    Option("switching_share", _SHARE, "2%", "GPU time that switching may cost"),
    Option("paging_rate", Kind(_QUANTITY, _rate), "5G", "bytes a second at which a working set moves to the card"),
    Option("side_by_side", _SIDE_BY_SIDE, "when-it-fits", "whether containers may run on a card together"),
    Option("card_reserve", _BYTES, "256Mi", "left free on a card that containers share side by side"),
    Option("context_size", _BYTES, "300Mi", "what a process's context takes on a card"),
    Option("grace", _TIME, "5s", "from being asked to yield to being shut out"),
    Option("alone_flight", _TIME_OR_0, "1s", "work in flight of a program that is alone; 0: always 20ms"),
    Option("announce", _TIME, "2s", "how long a holder goes on without a daemon"),
    Option("keep", _TIME, "5ms", "how long a wanted holder may be idle"),
    Option("observer", one_of(tuple(Observer), Observer), Observer.SPAWN, "who starts the second process"),
    Option("metrics_port", PORT, str(names.METRICS_PORT), "HTTP: /metrics, /healthz; 0 takes a free one"),
    Option("pod_resources", PATH, paths.POD_RESOURCES_SOCKET, "the kubelet's pod-resources socket"),
    Option("driver_root", AUTO_OR_PATH, "auto", "the root below which NVIDIA's driver lies"),
    Option("node", TEXT, "", "this node, whose pods to watch; without it the API is not asked"),
    Option("log_level", _LEVEL, "info", "how much is said"),
)
TABLE = Table(ENV_PREFIX, OPTIONS, Unusable)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The values of all settings.  The fields are the rows of the table."""

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
    alone_flight: float
    announce: float
    keep: float
    observer: Observer
    metrics_port: int
    pod_resources: Path
    driver_root: Path | None
    node: str
    log_level: str

    def rules(self) -> Rules:
        """Return the settings that the core needs."""
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
            # A holder that was alone must have ended its work within the grace.
            alone_flight=min(self.alone_flight, self.grace / 2),
            announce=self.announce,
            keep=self.keep,
        )

    def words(self) -> str:
        """Return all settings in one line, for the log."""
        return TABLE.describe(vars(self))


def build_parser() -> ArgumentParser:
    """Return the parser of the command line.  Values stay text until `read_settings`."""
    parser = ArgumentParser(
        prog="nvshare-schedulerd",
        formatter_class=RawDescriptionHelpFormatter,
        description="The scheduler of a node: it decides which container uses which GPU now.",
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
    TABLE.add_flags(parser)
    return parser


def read_settings(flags: Namespace, environ: Mapping[str, str]) -> Settings:
    """Return the settings from flags, variables and the file."""
    return Settings(**TABLE.read(vars(flags), environ, TABLE.read_file(flags.settings)))
