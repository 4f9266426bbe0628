"""Working sets: which containers fit on a card together, and how long a turn should last for the cost of a switch.

The rule it owns: the arithmetic of working sets, as pure functions of rules and states.  The bytes that a container
says it has count only up to its cap and up to the card.  So a false word costs its neighbours no more than its memory
could.
"""

from contract.words.grammar import AllocationKind
from schedulerd.core.model import ContainerState, Gpu, Request, Rules
from schedulerd.core.usage import Share
from schedulerd.policies import Seconds

_LONGEST_KEEP: Seconds = 10.0
_WITH_CHOICE = 1.25
"""In the last fifth of a turn the holder gives the GPU up at its first pause.  Then the pause costs no time."""


def recount(rules: Rules, gpu: Gpu, container: ContainerState) -> None:
    """Bring the GPU's sums up to date with one container."""
    share = container.shares[gpu.uuid]
    contexts = rules.context_bytes * container.contexts
    needed = _counted(gpu, container, share.allocated) + contexts
    unpageable = _counted(gpu, container, share.unpageable)
    pinned = needed if container.facts.allocation is AllocationKind.PLAIN else unpageable + contexts
    gpu.needed += needed - share.needed
    gpu.pinned += pinned - share.pinned
    share.needed, share.pinned = needed, pinned


def _counted(gpu: Gpu, container: ContainerState, said: int) -> int:
    """Return how many of the bytes that a container says it has are believed."""
    return min([said, *(most for most in (container.facts.memory, gpu.capacity) if most is not None)])


def room(rules: Rules, gpu: Gpu) -> int:
    """Return the bytes that containers may have together on a card."""
    return (gpu.capacity or 0) - rules.card_reserve


def can_share(rules: Rules, gpu: Gpu, share: Share) -> bool:
    """Return whether a container may share this GPU with others in its turn."""
    return rules.side_by_side and gpu.capacity is not None and share.needed <= room(rules, gpu)


def fits_beside(rules: Rules, gpu: Gpu, container: ContainerState) -> bool:
    """Return whether a container fits on the card together with its holders."""
    most = room(rules, gpu)
    if gpu.needed <= most:
        return True
    together = {id(turn.container): turn.container for turn in gpu.holders}
    together[id(container)] = container
    shares = [one.shares[gpu.uuid] for one in together.values()]
    resting = gpu.pinned - sum(share.pinned for share in shares)
    return sum(share.needed for share in shares) + resting <= most


def switch_seconds(rules: Rules, gpu: Gpu, share: Share) -> Seconds:
    """Return how long it takes to bring a container's working set back."""
    if gpu.capacity is None:
        return 0.0
    over = gpu.needed - room(rules, gpu)
    return max(0, min(over, share.needed)) / rules.paging_rate


def quantum(rules: Rules, request: Request) -> Seconds:
    """Return how long the turn of a request should last: the longest time that any of its GPUs needs."""
    container = request.container
    fixed = container.facts.quantum
    if fixed is not None:
        return fixed
    longest = 0.0
    for gpu in request.gpus:
        wanted = _quantum_on(rules, gpu, container)
        if wanted > longest:
            longest = wanted
    return longest


def _quantum_on(rules: Rules, gpu: Gpu, container: ContainerState) -> Seconds:
    fixed = gpu.fixed_quantum or rules.fixed_quantum
    if fixed is not None:
        return fixed
    if gpu.capacity is None or gpu.needed <= room(rules, gpu):
        return rules.quantum
    cost = switch_seconds(rules, gpu, container.shares[gpu.uuid])
    return min(max(cost / rules.switching_share * _WITH_CHOICE, rules.quantum), rules.longest_quantum)


def longest_turn(rules: Rules, gpu: Gpu, container: ContainerState) -> Seconds:
    """Return how long a turn can last while others wait, whatever memory the container has by then; drain included."""
    fixed = container.facts.quantum or gpu.fixed_quantum or rules.fixed_quantum or 0.0
    return max(fixed, rules.longest_quantum) + rules.grace


def keep(rules: Rules, gpu: Gpu, container: ContainerState) -> Seconds:
    """Return how long an idle holder may stay: as long as it would take to bring its working set back."""
    if gpu.capacity is None:
        return rules.keep
    cost = switch_seconds(rules, gpu, container.shares[gpu.uuid])
    return max(rules.keep, min(cost, _LONGEST_KEEP))
