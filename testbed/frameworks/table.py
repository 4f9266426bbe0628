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
    says: str = ""
    """What the hooked processes must say on stderr."""
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
    Step(name="PyTorch: long copies beside products", program="torch_streams", argument="long_copies"),
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

TWO = "2xA100-40GB"


def _two(name: str, program: str, argument: str, *, mode: Mode = Mode.GANG, **expect: object) -> Step:
    """Build a step of two GPUs; two busy processes on two processors differ by themselves, so it may be slower."""
    return Step(name=name, program=program, argument=argument, devices=TWO, mode=mode, expect=expect, slowest=2.0)


def _more(name: str, argument: str, seconds: float = 60.0, **expect: object) -> Step:
    return Step(name=name, program="torch_more", argument=argument, seconds=seconds, expect=expect, slowest=1.5)


def _shared(name: str, argument: str, kind: AllocationKind, **expect: object) -> Step:
    """Build a step of tensors between processes: managed memory has no handle, and the refusal names the annotation."""
    is_plain = kind is AllocationKind.PLAIN
    return Step(
        name=f"{name}, {kind.value}",
        program="torch_ipc",
        argument=argument,
        devices=TWO,
        mode=Mode.GANG,
        allocation=kind,
        expect=expect if is_plain else NOTHING,
        hooked=NOTHING if is_plain else {"raised": "AcceleratorError"},
        says="" if is_plain else "nvshare.com/allocation",
    )


PROCESSES = (
    _more("PyTorch: DataLoader, fork", "loader_fork", sum=32256.0),
    _more("PyTorch: DataLoader, spawn", "loader_spawn", sum=32256.0),
    _two("PyTorch: peer copy", "torch_more", "peer_copy", mode=Mode.PER_DEVICE, peer=True, same=True),
    _two("PyTorch: DataParallel", "torch_more", "data_parallel", mode=Mode.PER_DEVICE),
    _two("PyTorch: DDP over gloo", "torch_ranks", "gloo", mode=Mode.PER_DEVICE, steps=20, same=True),
    _two("PyTorch: DDP over NCCL, gang", "torch_ranks", "nccl", steps=20, same=True),
    _two("PyTorch: overlapped all-reduce, gang", "torch_ranks", "overlapped", sum=[3.0] * 4),
    _two("PyTorch: overlapped all-reduce, per device", "torch_ranks", "overlapped", mode=Mode.PER_DEVICE, same=True),
    _two("PyTorch: messages both ways, gang", "torch_ranks", "messages", both=[1.0, 2.0]),
    _shared("PyTorch: tensors between processes", "queue", AllocationKind.PLAIN, sums=[1000.0, 2000.0, 3000.0]),
    _shared("PyTorch: tensors between processes", "queue", AllocationKind.MANAGED),
    _shared("PyTorch: tensor-parallel loop", "tensor_parallel", AllocationKind.PLAIN, sums=[39.0, 39.0]),
    Step(name="PyTorch: a notebook that idles", program="torch_more", argument="notebook", expect={"cells": 3}),
)

COMPILED = (
    _more("PyTorch: torch.compile", "compiled", 150.0),
    _more("PyTorch: torch.compile, reduce-overhead", "reduce_overhead", 150.0),
    Step(name="Triton: a kernel of its own", program="others", argument="triton", seconds=120.0, slowest=1.5),
)

QUICK_XLA = {"XLA_FLAGS": "--xla_gpu_autotune_level=0"}
"""Tuning compiles dozens of kernels: half a minute of this machine, and a second of the GPU's."""


def _jax(name: str, argument: str, *, is_tuned: bool = False, **expect: object) -> Step:
    environ = UNCHANGED if is_tuned else QUICK_XLA
    return Step(
        name=name, program="jax_steps", argument=argument, environ=environ, seconds=150.0, expect=expect, slowest=1.5
    )


OTHERS = (
    _jax("JAX: init", "init", devices=1, platform="gpu"),
    _jax("JAX: jit and products", "jit", shape=[1024, 1024]),
    _jax("JAX: jit, with XLA's tuning", "jit", is_tuned=True, shape=[1024, 1024]),
    _jax("JAX: grad", "grad", shape=[512, 512]),
    _jax("JAX: preallocation", "preallocation", has_taken=True),
    _jax("JAX: out of memory, caught", "out_of_memory", said="RESOURCE_EXHAUSTED"),
    Step(
        name="JAX: two devices",
        program="jax_steps",
        argument="two_devices",
        devices=TWO,
        mode=Mode.PER_DEVICE,
        environ=QUICK_XLA,
        expect={"devices": ["0", "1"]},
    ),
    Step(name="onnxruntime", program="others", argument="onnxruntime", expect={"providers": "CUDAExecutionProvider"}),
    Step(name="numba-cuda", program="others", argument="numba", expect={"same": True}),
    Step(name="tinygrad", program="others", argument="tinygrad", expect={"device": "CUDA"}),
)

STEPS = TORCH + PROCESSES + COMPILED + OTHERS
