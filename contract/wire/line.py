r"""A line of `verb key=value …`: the language of the scheduler's sockets, for clients and for the administrator.

A line has at most 4 KiB with its newline, in plain ASCII.  A space, `%`, `=` or control character in a value is written
`%XX`.  Keys may come in any order, each once.

`nvsharectl` imports this module and must start fast: `dataclasses` and `urllib.parse` would cost it a fifth of its
time.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from contract.errors import BadLine

LONGEST = 4096
"""The most bytes of a line, its newline included."""
_VERB = re.compile(r"[a-z][a-z-]{0,31}")
_KEY = re.compile(r"[a-z][a-z0-9_]{0,31}")
_SPECIAL = re.compile(r"[^!-~]+|[%=]")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NO_WORDS: Mapping[str, str] = MappingProxyType({})


class Line(NamedTuple):
    """One message: a verb and its keys with their values."""

    verb: str
    words: Mapping[str, str] = _NO_WORDS


def encode(line: Line) -> bytes:
    """Return the line as it goes over the socket, newline included; raise BadLine."""
    if not _VERB.fullmatch(line.verb):
        raise BadLine(f"{line.verb!r} is not a verb: lower-case letters and '-', as in want")
    for key in line.words:
        if not _KEY.fullmatch(key):
            raise BadLine(f"{key!r} is not a key: lower-case letters, digits and '_', as in held_ms")
    words = (f"{key}={_SPECIAL.sub(_escaped, value)}" for key, value in line.words.items())
    raw = (" ".join((line.verb, *words)) + "\n").encode()
    if len(raw) > LONGEST:
        raise BadLine(f"a {line.verb} line of {len(raw)} bytes is longer than {LONGEST}")
    return raw


def _escaped(special: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in special[0].encode())


def decode(raw: bytes) -> Line:
    """Read the line in `raw`, with or without its newline; raise BadLine."""
    if len(raw) > LONGEST:
        raise BadLine(f"a line of {len(raw)} bytes is longer than {LONGEST}")
    try:
        text = raw.decode("ascii").removesuffix("\n")
    except UnicodeDecodeError:
        raise BadLine("a line holds a byte that is not ASCII: write it as %XX") from None
    verb, *rest = text.split(" ")
    if not _VERB.fullmatch(verb):
        raise BadLine(f"{verb[:40]!r} is not a verb: a line is 'verb key=value …'")
    words: dict[str, str] = {}
    for part in rest:
        key, value = _decode_word(part)
        if key in words:
            raise BadLine(f"key {key!r} stands twice in a {verb} line")
        words[key] = value
    return Line(verb, words)


def _decode_word(part: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals or not _KEY.fullmatch(key):
        raise BadLine(f"{part[:40]!r} is not key=value")
    has_escape = "%" in value
    if "=" in value or (has_escape and _BROKEN_ESCAPE.search(value)) or not value.isprintable():
        raise BadLine(f"the value of {key!r} must be printable, with '=', '%' and spaces written as %XX")
    if not has_escape:
        return key, value
    try:
        return key, _ESCAPE.sub(lambda escape: bytes.fromhex(escape[1].decode()), value.encode()).decode()
    except UnicodeDecodeError:
        raise BadLine(f"the value of {key!r} is not UTF-8 once its %XX are read") from None
