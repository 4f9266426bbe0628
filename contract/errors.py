"""The contract's exception family: a value that does not follow one of our grammars.

Each error says what was read and what would have been right, since its text reaches users unchanged.
"""


class ContractError(ValueError):
    """Base: some text is not what the contract says it must be."""


class BadDeviceId(ContractError):
    """Not a `<GPU-UUID>__<ordinal>`."""


class BadLine(ContractError):
    """Not a line of `verb key=value …`."""


class BadValue(ContractError):
    """An annotation, label or variable of ours with a value outside its grammar."""


class BadQuantity(ContractError):
    """Not a Kubernetes quantity."""


class BadAllocation(ContractError):
    """Not the text of an `allocation.json`."""


class BadReason(ContractError):
    """Not a reason code."""
