"""Kubernetes' grammar of quantities, exactly: `1`, `1k`, `1Ki`, `1e3`, `500m`, `.5G`.

A quantity is read into a Fraction, so that nothing is lost before a rule asks whether it is whole and positive.
"""

import re
from fractions import Fraction

from contract.errors import BadQuantity

_QUANTITY = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,3})?", re.ASCII)
_SUFFIXES: dict[str, Fraction] = {
    "": Fraction(1),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m"), start=-3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{suffix + "i": Fraction(1024) ** power for power, suffix in enumerate(("K", "M", "G", "T", "P", "E"), start=1)},
}
_LONGEST = 128


def parse_quantity(value: object) -> Fraction:
    """Return the number that a quantity in JSON means: text, or an integer or float as YAML writes them."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadQuantity(f"{value!r} is not a quantity: it must be a number or text such as 1, 500m or 2Gi")
    text = repr(value) if isinstance(value, float) else str(value)
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise BadQuantity(
            f"{text[:40]!r} is not a quantity: write a number with at most one suffix, such as 1, 500m or 2Gi"
        )
    sign, digits, suffix = match.group(1), match.group(2), match.group(3) or ""
    number = Fraction(digits.removesuffix(".")) * _scale(suffix)
    return -number if sign == "-" else number


def _scale(suffix: str) -> Fraction:
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    return Fraction(10) ** int(suffix[1:])
