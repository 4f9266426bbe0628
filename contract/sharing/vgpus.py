"""Count vGPUs as Kubernetes counts: what a container asks for, and what a pod holds at once.

The API's own validation comes after mutation, so a quantity may still be one that Kubernetes refuses.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from fractions import Fraction

from contract.errors import BadQuantity
from contract.words import names
from contract.words.quantity import parse_quantity

_ONE = Fraction(1)


class Kind(Enum):
    """The kind of a container in Kubernetes."""

    APP = "app"
    INIT = "init"
    SIDECAR = "sidecar"
    """An init container that runs on (`restartPolicy: Always`)."""
    EPHEMERAL = "ephemeral"


def count_in_container(limits: Mapping[str, object], requests: Mapping[str, object]) -> int | None:
    """Return how many vGPUs a container asks for; None where the API will refuse the pair.

    Absent requests are what the limits say, since that is Kubernetes' default.
    """
    if names.RESOURCE not in limits and names.RESOURCE not in requests:
        return 0
    limit = read_amount(limits.get(names.RESOURCE))
    request = read_amount(requests.get(names.RESOURCE)) if names.RESOURCE in requests else limit
    if limit is None or limit != request or limit < 0 or limit.denominator != 1:
        return None
    return int(limit)


def count_in_pod(containers: Iterable[tuple[Kind, int]]) -> int:
    """Return what a pod holds at once, from its containers in their order.

    That is its ordinary containers and sidecars together or, if more, its largest init step: an init container with
    the sidecars declared before it.
    """
    sidecars = ordinary = largest_step = 0
    for kind, vgpus in containers:
        if kind is Kind.SIDECAR:
            sidecars += vgpus
        elif kind is Kind.INIT:
            largest_step = max(largest_step, sidecars + vgpus)
        elif kind is Kind.APP:
            ordinary += vgpus
    return max(sidecars + ordinary, largest_step)


def read_amount(value: object) -> Fraction | None:
    """Return the number in a quantity, or None where it is none."""
    if value == "1":
        return _ONE
    try:
        return parse_quantity(value)
    except BadQuantity:
        return None
