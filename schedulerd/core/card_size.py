"""The sizes of the cards: by NVML, else by the processes that see them.

The rule it owns: NVML's word counts.  Without it, a size counts that all containers of the card agree on.  Containers
that disagree are not believed, so a false word does no more harm than no word: turns are exclusive and short.
"""

from collections.abc import Mapping

from schedulerd.core import memory
from schedulerd.core.model import Gpu
from schedulerd.core.turns import Turns
from schedulerd.policies import Seconds


def hear_process(turns: Turns, process: int, sizes: Mapping[str, int], now: Seconds) -> None:
    """Record the sizes of its cards that a process says."""
    container = turns.members[process]
    container.card_bytes.update({uuid: size for uuid, size in sizes.items() if size and uuid in container.shares})
    for uuid in container.card_bytes:
        _settle(turns, turns.gpu(uuid), now)


def hear_nvml(turns: Turns, gpu: Gpu, size: int | None, now: Seconds) -> None:
    """Record the size of a card as NVML says.  Without any size no containers run side by side."""
    gpu.measured = size
    _settle(turns, gpu, now)


def _settle(turns: Turns, gpu: Gpu, now: Seconds) -> None:
    size = _size_of(gpu)
    if gpu.capacity != size:
        gpu.capacity = size
        for container in gpu.containers.values():
            memory.recount(turns.rules, gpu, container)
        turns.grants.settle((gpu,), now)


def _size_of(gpu: Gpu) -> int | None:
    if gpu.measured is not None:
        return gpu.measured
    said = {size for container in gpu.containers.values() if (size := container.card_bytes.get(gpu.uuid))}
    return said.pop() if len(said) == 1 else None
