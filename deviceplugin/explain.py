"""`nvshare-device-plugin explain`: which slots a container would get, or where its devices would come from, and why.

The module owns the command's flags and its tables.  It runs anywhere: the caller gives the node's state as text, or
names its scheduler's socket and its folders.  It writes nothing.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.options import Kind, read_text, whole
from contract.errors import ContractError
from contract.sharing.inventory import Gpu, Inventory
from contract.sharing.placement import Policy, Request, Step, Strategy, choose
from contract.sharing.scoring import FIGURES, Weights, score
from contract.wire.load import GpuLoad, decode_load
from contract.words import names, paths
from contract.words.device_id import decode
from deviceplugin.core.inventory import Rules, take_stock
from deviceplugin.errors import BadSetting
from deviceplugin.node.load import ask_for_load
from deviceplugin.settings import DEVICES, SLOTS, STRATEGY, read_slots_for

_NUMA = whole(0, 1023)


@dataclass(frozen=True, slots=True)
class Question:
    """The choice to explain."""

    request: Request
    inventory: Inventory
    strategy: Strategy
    weights: Weights | None
    loads: tuple[GpuLoad, ...]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `explain`."""
    parser.add_argument("--available", metavar="ID,…", help="device ids, comma-separated; - reads them")
    parser.add_argument("--size", metavar="N", help="how many slots the container asks for")
    parser.add_argument("--must", default="", metavar="ID,…", help="device ids that must be among them")
    parser.add_argument("--strategy", default=Strategy.SPREAD.value, help=" or ".join(Strategy))
    parser.add_argument("--slots", default=str(names.SLOTS_PER_GPU), help="slots a GPU")
    parser.add_argument("--slots-for", action="append", default=[], metavar="UUID=N", help="slots of one GPU")
    parser.add_argument("--numa", action="append", default=[], metavar="UUID=N", help="NUMA node of one GPU")
    parser.add_argument("--weights", default="", help="load-aware, as for serve; 'default' for all")
    parser.add_argument(
        "--load", default=paths.NODE_CONTROL_SOCKET, help="the scheduler's control socket, or a file with its answer"
    )
    devices = parser.add_argument_group("where device nodes and driver files come from, instead of which slots")
    devices.add_argument("--devices", nargs="?", const="auto", help=f"as for serve: {DEVICES.form}")
    devices.add_argument("--card", action="append", default=[], metavar="UUID=N", help="/dev/nvidia<N>; else NVML's")
    devices.add_argument("--cdi-folder", default=paths.CDI_SPECS)
    devices.add_argument("--static-cdi-folder", default=paths.STATIC_CDI_SPECS)
    devices.add_argument("--node-root", default=paths.NODE_ROOT)


def read_question(given: argparse.Namespace) -> Question:
    """Return the question that the flags ask; raise `BadSetting`."""
    ids = _ids(sys.stdin.read() if given.available == "-" else given.available)
    must = _ids(given.must)
    rules = Rules(slots=_read(SLOTS, given.slots, "--slots"), slots_for=read_slots_for(given.slots_for))
    numa = {uuid: _read(_NUMA, node, "--numa") for uuid, node in _pairs(given.numa)}
    uuids = dict.fromkeys(decode(device_id).uuid for device_id in (*ids, *must))
    gpus = [Gpu(uuid=uuid, model="", numa=numa.get(uuid)) for uuid in uuids]
    weights = Weights.read(given.weights) if given.weights else None
    return Question(
        Request(available=ids, must=must, size=_read(SLOTS, given.size, "--size")),
        take_stock(gpus, rules),
        _read(STRATEGY, given.strategy, "--strategy"),
        weights,
        _read_load(Path(given.load)) if weights else (),
    )


def _read(kind: Kind, text: str, flag: str) -> Any:
    return read_text(kind, text, way=flag, error=BadSetting)


def _ids(text: str) -> tuple[str, ...]:
    ids = tuple(part for part in text.replace(",", " ").split() if part)
    try:
        for device_id in ids:
            decode(device_id)
    except ContractError as error:
        raise BadSetting(f"{error}.") from error
    return ids


def _pairs(entries: Sequence[str]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        name, _, value = entry.rpartition("=")
        yield name, value


def _read_load(path: Path) -> tuple[GpuLoad, ...]:
    try:
        if path.is_socket():
            return ask_for_load(path).gpus
        return decode_load(path.read_bytes().splitlines(keepends=True)).gpus
    except (OSError, ContractError) as error:
        raise BadSetting(
            f"no load can be read from {path}: {error}. Give --load a control socket or a file."
        ) from error


def explain(given: argparse.Namespace) -> str:
    """Return the table; raise `BadSetting`."""
    if given.devices is not None:
        from deviceplugin.explain_devices import tell_devices  # a probe loads this module and neither YAML nor NVML

        return "\n".join(tell_devices(given))
    if given.available is None or given.size is None:
        raise BadSetting("explain needs --available and --size, or --devices. Give it one of the two questions.")
    return "\n".join(tell(read_question(given)))


def tell(question: Question) -> Iterator[str]:
    """Yield the figures of each GPU, each step with its ranks, and the answer."""
    scores = score(question.loads, question.weights) if question.weights else {}
    taken_weight = question.weights.taken if question.weights else 1.0
    penalty = {uuid: sum(parts.values()) for uuid, parts in scores.items()} if question.weights else None
    policy = Policy(strategy=question.strategy, penalty=penalty, taken_weight=taken_weight)
    yield f"strategy {question.strategy.value}, {'by load' if penalty is not None else 'by count'}"
    yield from _tell_gpus(question, scores, policy)
    steps = choose(question.request, question.inventory, policy)
    for number, step in enumerate(steps, start=1):
        yield from _tell_step(number, step)
    yield f"answer: {' '.join(step.device_id for step in steps)}"
    uuids = {decode(step.device_id).uuid for step in steps}
    if len(steps) < question.request.size:
        yield f"only {len(steps)} of {question.request.size} slots are available: the kubelet would not have asked"
    if len(uuids) < len(steps):
        yield f"{len(steps)} slots on {len(uuids)} GPUs: Allocate would refuse this container (SameGpu)"


def _tell_gpus(question: Question, scores: Mapping[str, Mapping[str, float]], policy: Policy) -> Iterator[str]:
    free = dict.fromkeys(question.inventory.slots_on, 0)
    for device_id in set(question.request.available) - set(question.request.must):
        free[decode(device_id).uuid] += 1
    figures = [name for name in FIGURES if any(name in parts for parts in scores.values())]
    heads = ["free", "slots", "numa", *(["taken", *figures, "penalty"] if policy.penalty is not None else [])]
    yield f"{'GPU':<42}" + "".join(f"{head:>12}" for head in heads)
    for shared in question.inventory.shared:
        uuid, parts = shared.gpu.uuid, scores.get(shared.gpu.uuid, {})
        cells = [str(free[uuid]), str(shared.slots), "-" if shared.gpu.numa is None else str(shared.gpu.numa)]
        if policy.penalty is not None:
            taken = policy.taken_weight * (1.0 - free[uuid] / shared.slots)
            total = taken + sum(parts.values())
            cells += [f"{value:.3f}" for value in (taken, *(parts.get(name, 0.0) for name in figures), total)]
        yield f"{uuid:<42}" + "".join(f"{cell:>12}" for cell in cells)


def _tell_step(number: int, step: Step) -> Iterator[str]:
    if not step.ranks:
        yield f"{number}. {step.device_id}: must be among them"
        return
    yield f"{number}. {step.device_id}, the lowest of:"
    for uuid, rank in sorted(step.ranks.items(), key=lambda item: item[1]):
        shown = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in rank[:-1])
        yield f"     {uuid:<42} ({shown})"
