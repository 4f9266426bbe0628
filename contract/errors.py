"""The contract's errors: a value that does not follow one of our grammars.

Each error says what was read and what is allowed, since its text reaches users unchanged.
"""


class ContractError(ValueError):
    """Base of the family: some text does not follow the contract."""


class BadDeviceId(ContractError):
    """The text is not `<GPU-UUID>__<ordinal>`."""


class BadLine(ContractError):
    """The text is not a line of `verb key=value …`."""


class BadValue(ContractError):
    """One of our annotations, labels or variables has a value outside its grammar."""


class BadQuantity(ContractError):
    """The value is not a Kubernetes quantity."""


class BadAllocation(ContractError):
    """The text is not that of an `allocation.json`."""


class BadReason(ContractError):
    """The text is not a reason code."""
