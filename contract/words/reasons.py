"""The reason code: the fixed name of a refusal in texts, events, logs and metric labels.

A code is one CamelCase word, as Kubernetes' own reasons are.  Each room lists its own codes in its own table.
"""

import re
from dataclasses import dataclass

from contract.errors import BadReason

_CODE = re.compile(r"([A-Z][a-z0-9]+)+", re.ASCII)
_LONGEST = 48


class ReasonCode(str):
    """A checked code, which equals its text."""

    __slots__ = ()

    def __new__(cls, text: str) -> "ReasonCode":
        if not _CODE.fullmatch(text) or len(text) > _LONGEST:
            raise BadReason(f"{text!r} is not a reason code: one CamelCase word of at most {_LONGEST} letters")
        return super().__new__(cls, text)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason of a refusal: the code, one sentence of cause, one of remedy."""

    code: ReasonCode
    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.code}: {self.cause} {self.remedy}"
