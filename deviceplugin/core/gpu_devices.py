"""Decide where the device nodes and driver files of this node's GPUs come from, and say why.

The module owns the order of the sources.  NVIDIA's own CDI specs come first, then the GPU Operator's management spec,
of which only the card's own node and the control nodes are kept.  A node without any such spec leaves the work to
NVIDIA's runtime, which reads the environment.

The rule: a card gets its own devices or its pods wait.  So a spec counts only where its nodes are those of the card
that NVML has under that UUID.  A node whose specs are broken, old, or gone after they were used is refused; another
source would give no GPU, or another one.  A node without specs is refused too where nobody reads the environment.
Pure.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from contract.words import names
from contract.words.node import DevicesFrom
from deviceplugin.core.device_edits import (
    DeviceEdits,
    ForeignSpec,
    card_of,
    cards_in,
    has_mig_nodes,
    join_edits,
    newest,
)
from deviceplugin.errors import NoDevices

NVIDIA_KINDS = ("nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu")
MANAGEMENT_KIND = "management.nvidia.com/gpu"
MANAGEMENT_DEVICE = "all"
KINDS: Mapping[str, DevicesFrom] = {
    **dict.fromkeys(NVIDIA_KINDS, DevicesFrom.NVIDIA_CDI),
    MANAGEMENT_KIND: DevicesFrom.MANAGEMENT_CDI,
}
"""The kinds of spec that we read, best first, and the source that each one is."""
CONTROL_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_NEEDED_NODES = ("nvidiactl", "nvidia-uvm")
"""CUDA does not start without these two."""
NOTHING = f"{names.ENV_VISIBLE_DEVICES}=void"
"""It tells NVIDIA's runtime, where it wraps the container, to add nothing."""
_WAY_OUT = "or set --devices environment if NVIDIA's runtime really is the default here"


@dataclass(frozen=True, slots=True)
class Card:
    """One shared GPU, and its number in /dev/nvidia<n>; None where NVML does not say."""

    uuid: str
    minor: int | None


@dataclass(frozen=True, slots=True)
class Malformed:
    """A file that should be one of NVIDIA's specs and cannot be read as one."""

    file: str
    why: str


@dataclass(frozen=True, slots=True)
class FoundSpecs:
    """What the node's CDI folders hold of NVIDIA's."""

    specs: tuple[ForeignSpec, ...] = ()
    malformed: tuple[Malformed, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What is known of the node beside its specs."""

    cards: Sequence[Card]
    wanted: DevicesFrom | None = None
    """The operator's word; None: whatever is found."""
    used_before: DevicesFrom | None = None
    """The CDI source that this node had last; None where it never had one."""
    takes_cdi: bool = True
    """Whether kubelet and runtime pass CDI devices on."""
    why_unread: str = ""
    """Why nobody on this node would read the environment; empty where NVIDIA's runtime does, or nothing tells."""


@dataclass(frozen=True, slots=True)
class CardDevices:
    """The edits that bring one card into a container."""

    spec: ForeignSpec
    own: DeviceEdits


@dataclass(frozen=True, slots=True)
class GpuDevices:
    """Where this node's devices come from; equal where nothing has changed."""

    source: DevicesFrom
    why: str
    """One sentence."""
    cards: Mapping[str, CardDevices] = field(default_factory=dict)
    """By UUID, for the CDI sources."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """By UUID: why this card's containers wait."""
    notes: tuple[str, ...] = ()
    """Sentences about things that stop nothing."""

    def edits_of(self, uuids: Sequence[str]) -> DeviceEdits:
        """Return the edits that bring these cards, with what they share once; raise `NoDevices` with a sentence."""
        if self.source is DevicesFrom.ENVIRONMENT:
            return DeviceEdits(env=(f"{names.ENV_VISIBLE_DEVICES}={','.join(uuids)}",))
        found = [self._one(uuid) for uuid in uuids]
        parts = [part for each in found for part in (each.spec.common, each.own)]
        return join_edits([*parts, DeviceEdits(env=(NOTHING,))])

    def version_of(self, uuids: Sequence[str]) -> str:
        """Return the newest CDI version that the edits of these cards need."""
        return newest(["0.3.0", *(self.cards[uuid].spec.version for uuid in uuids if uuid in self.cards)])

    @property
    def is_trouble(self) -> bool:
        """Return whether containers of some card have to wait."""
        return self.source is DevicesFrom.REFUSED or bool(self.refused)

    def sentence(self) -> str:
        """Return all that an operator should read about it."""
        parts = [f"GPU devices: {self.source.value}. {self.why}", *self.refused.values(), *self.notes]
        return " ".join(dict.fromkeys(parts))

    def _one(self, uuid: str) -> CardDevices:
        if self.source is DevicesFrom.REFUSED:
            raise NoDevices(self.refused.get(uuid, self.why))
        try:
            return self.cards[uuid]
        except KeyError:
            raise NoDevices(
                self.refused.get(uuid, f"GPU {uuid} is in none of this node's CDI specs. Generate them again.")
            ) from None


def find_gpu_devices(found: FoundSpecs, asked: Question) -> GpuDevices:
    """Return where this node's devices come from, and why."""
    if asked.wanted is DevicesFrom.ENVIRONMENT:
        return _environment("--devices says so: NVIDIA's runtime must read the environment.")
    if not asked.takes_cdi:
        return _by_environment("Kubelet or runtime take no CDI devices", asked)
    kinds = [kind for kind, source in KINDS.items() if asked.wanted in (None, source)]
    answers = [_answer_of(kind, found.specs, asked.cards) for kind in kinds]
    present = [each for each in answers if each.is_present]
    best = max(present, key=lambda each: len(each.cards), default=None)  # the first of equal ones
    broken = tuple(f"{each.file} cannot be used: {each.why}." for each in found.malformed)
    if best is not None and (best.cards or not asked.cards) and not _was_another(best, asked, broken):
        return _by_cdi(best, broken)
    if best is not None or broken or asked.used_before is not None or asked.wanted is not None:
        return _refused(best, broken, asked)
    return _by_environment("No CDI spec of NVIDIA's is on this node", asked)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the specs of one kind say about the cards."""

    kind: str
    is_present: bool
    cards: Mapping[str, CardDevices]
    complaints: Mapping[str, str]
    files: tuple[str, ...]


def _was_another(best: _Answer, asked: Question, broken: tuple[str, ...]) -> bool:
    """Return whether a broken file may be the spec that was used until now: then no other one takes its place."""
    return bool(broken) and asked.used_before not in (None, KINDS[best.kind])


def _by_cdi(best: _Answer, broken: tuple[str, ...]) -> GpuDevices:
    source = KINDS[best.kind]
    files = sorted({each.spec.file for each in best.cards.values()} or set(best.files))
    why = f"They are copied from {', '.join(files)} ({best.kind})."
    notes = (*broken, *_missing_nodes(best.cards.values()))
    return GpuDevices(source, why, cards=best.cards, refused=best.complaints, notes=notes)


def _refused(best: _Answer | None, broken: tuple[str, ...], asked: Question) -> GpuDevices:
    if broken:
        why = f"{' '.join(broken)} Pods wait. Write it again (nvidia-ctk cdi generate), {_WAY_OUT}."
    elif best is not None:
        why = f"No spec of kind {best.kind} fits the GPUs that NVML finds. Pods wait."
    elif asked.used_before is not None:
        why = (
            f"The CDI spec that this node had ({asked.used_before.value}) is gone. Pods wait."
            f" Generate it again (nvidia-ctk cdi generate), {_WAY_OUT}."
        )
    else:
        why = "--devices asks for a CDI spec of NVIDIA's and this node has none. Pods wait. Generate it, or change it."
    refused = best.complaints if best is not None and not broken else {}
    return GpuDevices(DevicesFrom.REFUSED, why, refused=refused)


def _by_environment(because: str, asked: Question) -> GpuDevices:
    if not asked.why_unread:
        return _environment(f"{because}, so NVIDIA's runtime must read the environment.")
    why = f"{because}, and nobody reads the environment. {asked.why_unread} Pods wait. Generate a spec, {_WAY_OUT}."
    return GpuDevices(DevicesFrom.REFUSED, why)


def _environment(why: str) -> GpuDevices:
    return GpuDevices(DevicesFrom.ENVIRONMENT, why)


def _answer_of(kind: str, specs: Iterable[ForeignSpec], cards: Sequence[Card]) -> _Answer:
    mine = sorted((spec for spec in specs if spec.kind == kind), key=lambda spec: (-spec.priority, spec.file))
    find: Finder = _find_managed if kind == MANAGEMENT_KIND else _find_device
    found: dict[str, CardDevices] = {}
    complaints: dict[str, str] = {}
    for card in cards if mine else ():
        answer = _find_in(mine, card, find)
        if isinstance(answer, str):
            complaints[card.uuid] = answer
        else:
            found[card.uuid] = answer
    return _Answer(kind, bool(mine), found, complaints, tuple(spec.file for spec in mine))


Finder = Callable[[ForeignSpec, Card], "DeviceEdits | str"]
"""Return the card's own edits in a spec, or a sentence why there are none."""


def _find_in(specs: Sequence[ForeignSpec], card: Card, find: Finder) -> CardDevices | str:
    """Ask one spec after the other; return the first sentence where none has the card."""
    complaint = ""
    for spec in specs:
        answer = find(spec, card)
        if isinstance(answer, str):
            complaint = complaint or answer
        elif any(_contradicts(other, spec, find(other, card), answer) for other in specs):
            return f"Two CDI specs name GPU {card.uuid} and differ, so no runtime takes either. Remove one of them."
        else:
            return CardDevices(spec, answer)
    return complaint


def _contradicts(other: ForeignSpec, spec: ForeignSpec, theirs: DeviceEdits | str, ours: DeviceEdits) -> bool:
    is_rival = other is not spec and other.priority == spec.priority and not isinstance(theirs, str)
    return is_rival and (theirs, other.common) != (ours, spec.common)


def _find_device(spec: ForeignSpec, card: Card) -> DeviceEdits | str:
    """Find the device by UUID; else by a number whose only card is this one, since numbers may count anything."""
    named = spec.devices.get(card.uuid)
    if named is None and card.minor is not None:
        own = frozenset({card.minor})
        numbered = (each for name, each in spec.devices.items() if name.isdigit() and cards_in(each) == own)
        named = next((each for each in numbered if not has_mig_nodes(each)), None)
    if named is None:
        return _why_not_named(spec, card)
    if has_mig_nodes(named):
        return (
            f"{spec.file} has a MIG instance for GPU {card.uuid}, and MIG instances are not shared. Generate it again."
        )
    return _checked(spec, card, named)


def _checked(spec: ForeignSpec, card: Card, named: DeviceEdits) -> DeviceEdits | str:
    cards = cards_in(named)
    if not cards:
        return f"{spec.file} brings no /dev/nvidia<n> for GPU {card.uuid}. Generate it again."
    if len(cards) > 1 or card.minor not in (None, *cards):
        said = " and ".join(f"/dev/nvidia{number}" for number in sorted(cards))
        return (
            f"{spec.file} says that GPU {card.uuid} is {said}, and NVML says /dev/nvidia{card.minor}."
            " The spec is old: generate it again (nvidia-ctk cdi generate)."
        )
    return named


def _why_not_named(spec: ForeignSpec, card: Card) -> str:
    on_card = [name for name, each in spec.devices.items() if card.minor in cards_in(each) and has_mig_nodes(each)]
    if card.minor is not None and on_card:
        return (
            f"{spec.file} has only MIG instances of GPU {card.uuid} ({', '.join(sorted(on_card)[:3])}), and they are"
            " not shared. Switch MIG off and generate the spec again."
        )
    return f"{spec.file} has no device of GPU {card.uuid}. Generate it again (nvidia-ctk cdi generate)."


def _find_managed(spec: ForeignSpec, card: Card) -> DeviceEdits | str:
    """Take the device with every card, and keep this card's node and the control nodes of it."""
    every = spec.devices.get(MANAGEMENT_DEVICE)
    if every is None:
        return f"{spec.file} has no device {MANAGEMENT_DEVICE!r}. Generate it again."
    if card.minor is None:
        return f"NVML does not say which /dev/nvidia<n> is GPU {card.uuid}, so {spec.file} cannot be used."
    if card.minor not in cards_in(every):
        return f"{spec.file} has no /dev/nvidia{card.minor}, which is GPU {card.uuid}. Generate it again."
    kept = tuple(node for node in every.nodes if card_of(node) == card.minor or _name(node) in CONTROL_NODES)
    return replace(every, nodes=kept)


def _name(node: Mapping[str, object]) -> str:
    return str(node.get("hostPath") or node["path"]).rpartition("/")[2]


def _missing_nodes(found: Iterable[CardDevices]) -> tuple[str, ...]:
    """Return a sentence for each spec without the control nodes that CUDA needs."""
    sentences = {}
    for each in found:
        there = {_name(node) for part in (each.spec.common, each.own) for node in part.nodes}
        missing = [name for name in _NEEDED_NODES if name not in there]
        if missing:
            listed = " and ".join(f"/dev/{name}" for name in missing)
            sentences[each.spec.file] = (
                f"{each.spec.file} brings no {listed}, so CUDA may not start: load the module and generate it again."
            )
    return tuple(sentences.values())
