"""The steps, one frozen table: what runs, on what, and what must hold.

The rule: a step runs bare, hooked alone, and hooked beside a competitor.  Its facts must be the same in all three,
except where `hooked` says what must hold under the hook instead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from contract.words.grammar import AllocationKind, Mode

GIB = 1 << 30
NOTHING: Mapping[str, object] = MappingProxyType({})
UNCHANGED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of the table."""

    name: str
    program: str
    """A module of `testbed/frameworks/steps/`."""
    argument: str
    devices: str = "1xA100-40GB"
    environ: Mapping[str, str] = field(default_factory=lambda: UNCHANGED)
    seconds: float = 60.0
    """The deadline of one run; later than that it hangs."""
    expect: Mapping[str, object] = field(default_factory=lambda: NOTHING)
    """Facts that must hold in every run."""
    hooked: Mapping[str, object] = field(default_factory=lambda: NOTHING)
    """Facts that must hold under the hook, whatever they are bare."""
    slowest: float = 1.3
    """Hooked and alone it may take this many times as long as bare."""
    mode: Mode | None = None
    allocation: AllocationKind | None = None
    memory: int | None = None
    """The container's cap in bytes."""
    is_quick: bool = False
    """Part of `make test`."""


def _basics(name: str, argument: str, *, is_quick: bool = False, **expect: object) -> Step:
    return Step(name=name, program="torch_basics", argument=argument, expect=expect, is_quick=is_quick)


def _allocator(name: str, conf: str) -> Step:
    environ = {"PYTORCH_ALLOC_CONF": conf}
    return Step(name=name, program="torch_memory", argument="grow_and_shrink", environ=environ, expect={"reserved": 0})


def _capped(name: str, conf: str) -> Step:
    seen = {"total": 8 * GIB, "properties": 8 * GIB, "beyond": "OutOfMemoryError"}
    return Step(
        name=name,
        program="torch_memory",
        argument="under_a_cap",
        environ={"PYTORCH_ALLOC_CONF": conf},
        expect={"free_at_most_total": True, "free_falls": True, "kept": 4},
        hooked=seen,
        memory=8 * GIB,
    )


TORCH = (
    _basics("PyTorch: init", "init", is_quick=True, available=True, devices=1),
    _basics("PyTorch: copies", "copies", is_quick=True, same=True, pinned=True),
    _basics("PyTorch: elementwise", "elementwise"),
    _basics("PyTorch: sort, topk, cumsum, unique", "selection"),
    _basics("PyTorch: products", "products"),
    _basics("PyTorch: training with Adam", "train", is_quick=True, losses=10),
    _basics("PyTorch: mixed precision", "mixed_precision"),
    _basics("PyTorch: convolution", "convolution"),
    _basics("PyTorch: attention", "attention"),
    _basics("PyTorch: random sequence lengths", "lengths", steps=100),
    Step(name="PyTorch: two streams with copies", program="torch_streams", argument="two_streams", is_quick=True),
    Step(name="PyTorch: threads with streams", program="torch_streams", argument="threads"),
    Step(name="PyTorch: CUDA graphs", program="torch_streams", argument="graphs"),
    Step(
        name="PyTorch: out of memory, caught",
        program="torch_memory",
        argument="out_of_memory",
        expect={"error": "OutOfMemoryError", "below_the_card": True, "most_of_it": True},
        is_quick=True,
    ),
    Step(name="PyTorch: memory snapshot", program="torch_memory", argument="snapshot", expect={"segments": True}),
    Step(name="PyTorch: MemPool", program="torch_memory", argument="pool", expect={"distinct": True}),
    _allocator("PyTorch: usual allocator", "backend:native"),
    _allocator("PyTorch: expandable segments", "expandable_segments:True"),
    _allocator("PyTorch: cudaMallocAsync", "backend:cudaMallocAsync"),
    _capped("PyTorch: a cap of 8 GiB", "backend:native"),
    _capped("PyTorch: a cap, expandable segments", "expandable_segments:True"),
    _capped("PyTorch: a cap, cudaMallocAsync", "backend:cudaMallocAsync"),
)

STEPS = TORCH
