"""The codec of the wire: lines to messages and back, with one entry of a table for each verb.

The rule it owns: the keys that a verb needs and the form of their values (`PROTOCOL.md`).  Whatever arrives, the result
is a message, or a `Refused` with a sentence.
"""

import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeVar

from contract.errors import BadLine
from contract.wire import numbers
from contract.wire.line import Line, decode, encode
from contract.wire.shared_memory import MOST_GPUS
from contract.words import limits
from contract.words.gpu_uuid import is_gpu_uuid
from contract.words.grammar import AllocationKind, Mode, OnLoss
from schedulerd.core import messages
from schedulerd.errors import BadForm, TooMany, UnknownVerb, WrongVersion

T = TypeVar("T")
Words = Mapping[str, str]

_TURN = re.compile(r"[0-9a-f]{8}\.[1-9][0-9]{0,18}", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,18}", re.ASCII)
_SIGNED = re.compile(r"-?[0-9]{1,10}", re.ASCII)
_NAME = re.compile(r"[!-~]{1,253}", re.ASCII)
_REASONS = ("yield", "idle", "exit")


def _read(words: Words, key: str, reader: Callable[[str], T]) -> T:
    try:
        return reader(words[key])
    except KeyError:
        raise BadForm(f"the key {key} is missing") from None
    except ValueError:
        raise BadForm(f"{key}={words[key][:80]} is not a valid value. PROTOCOL.md has the form of each key") from None


def _maybe(words: Words, key: str, reader: Callable[[str], T]) -> T | None:
    return _read(words, key, reader) if key in words else None


def _matching(form: re.Pattern[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not form.fullmatch(text):
            raise ValueError(text)
        return text

    return read


def _number(form: re.Pattern[str], least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not form.fullmatch(text) or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return read


def _gpu(text: str) -> str:
    """Return the interned name of a GPU.

    It is looked up in many small tables, and an object that is the same is found without a comparison of its text.
    """
    if not is_gpu_uuid(text):
        raise ValueError(text)
    return sys.intern(text)


_turn = _matching(_TURN)
_size = _number(_COUNT, 0, limits.LARGEST_BYTES)


def _gpus(text: str) -> tuple[str, ...]:
    gpus = tuple(map(_gpu, text.split(",")))
    if len(gpus) > MOST_GPUS:
        raise TooMany(f"{len(gpus)} GPUs are named. At most {MOST_GPUS} are allowed")
    if len(set(gpus)) != len(gpus):
        raise ValueError(text)
    return gpus


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(_size, text.split(",")))


def _held(text: str) -> tuple[messages.Held, ...]:
    pairs = (part.partition("@") for part in text.split(","))
    return tuple(messages.Held(_turn(turn), _gpu(gpu)) for turn, _, gpu in pairs)


def _reason(text: str) -> str:
    if text not in _REASONS:
        raise ValueError(text)
    return text


def _hello(words: Words) -> messages.Hello:
    if _read(words, "v", _matching(_NAME)) != str(numbers.VERSION):
        raise WrongVersion(f"this daemon speaks only version {numbers.VERSION}")
    gpus, card_bytes = _read(words, "gpus", _gpus), _maybe(words, "card_bytes", _sizes) or ()
    if card_bytes and len(card_bytes) != len(gpus):
        raise BadForm(f"card_bytes has {len(card_bytes)} sizes for {len(gpus)} GPUs. Give one for each, in their order")
    return messages.Hello(
        pid=_read(words, "pid", _number(_COUNT, 0, 2**31)),
        gpus=gpus,
        card_bytes=card_bytes,
        holding=_maybe(words, "holding", _held) or (),
        shared=_maybe(words, "beside", _held) or (),
        container=_maybe(words, "container", _matching(_NAME)),
        mode=_maybe(words, "mode", Mode),
        weight=_maybe(words, "weight", _number(_COUNT, 1, limits.LARGEST_WEIGHT)),
        priority=_maybe(words, "priority", _number(_SIGNED, -(2**31), 2**31)),
        quantum_ms=_maybe(words, "quantum_ms", _number(_COUNT, 1, limits.LONGEST_QUANTUM_MS)),
        memory=_maybe(words, "memory", _number(_COUNT, 1, limits.LARGEST_BYTES)),
        allocation=_maybe(words, "allocation", AllocationKind),
        on_loss=_maybe(words, "on_loss", OnLoss),
    )


def _want(words: Words) -> messages.Want:
    return messages.Want(_read(words, "gpus", _gpus))


def _done(words: Words) -> messages.Done:
    return messages.Done(
        turn=_read(words, "turn", _turn),
        gpus=_maybe(words, "gpus", _gpus),
        reason=_maybe(words, "reason", _reason) or "yield",
        busy_us=_maybe(words, "busy_us", _size) or 0,
    )


def _using(words: Words) -> messages.Using:
    return messages.Using(_read(words, "gpu", _gpu), _read(words, "pageable", _size), _read(words, "unpageable", _size))


def _reserve(words: Words) -> messages.Reserve:
    return messages.Reserve(_read(words, "gpu", _gpu), _read(words, "bytes", _size))


VERBS: dict[str, Callable[[Words], messages.ClientMessage]] = {
    "hello": _hello,
    "want": _want,
    "done": _done,
    "using": _using,
    "reserve": _reserve,
}


def split(raw: bytes) -> Line:
    """Return the line in `raw`.  Its verb is not checked yet."""
    try:
        return decode(raw)
    except BadLine as error:
        raise BadForm(str(error)) from None


# On the path of every hand-off.  A program repeats the very same `want`, and `done` comes in few forms.  Both are read
# here without being split into keys.  Other lines go the long way, with the same result (a test checks it).
_USUAL_DONE = re.compile(
    rb"done turn=([0-9a-f]{8}\.[1-9][0-9]{0,18})(?: reason=(yield|idle|exit))?(?: busy_us=([0-9]{1,17}))?"
).fullmatch
_USUAL_REASONS: dict[bytes | None, str] = {reason.encode(): reason for reason in _REASONS}
_USUAL_REASONS[None] = "yield"
_KNOWN_WANTS: dict[bytes, messages.Want] = {}
_MAX_KNOWN_WANTS = 4096
_SHORT = 256


def read_usual(raw: bytes) -> messages.ClientMessage | None:
    """Return the message of a line that comes often; None for any other line."""
    known = _KNOWN_WANTS.get(raw)
    if known is not None:
        return known
    usual = _USUAL_DONE(raw)
    if usual is None:
        return None
    turn, reason, busy = usual.groups()
    return messages.Done(turn.decode(), None, _USUAL_REASONS[reason], int(busy) if busy else 0)


def remember(raw: bytes, message: messages.ClientMessage) -> None:
    """Remember the message of this line, if it is a short `want`.

    A container that never says the same line twice fills the table.  Then the whole table is forgotten, and each other
    line is read the long way once.  A container's budget of lines allows it to do that once a second.
    """
    if type(message) is messages.Want and len(raw) <= _SHORT:
        if len(_KNOWN_WANTS) >= _MAX_KNOWN_WANTS:
            _KNOWN_WANTS.clear()
        _KNOWN_WANTS[raw] = message


def read(line: Line) -> messages.ClientMessage:
    """Return the message that a line means."""
    reader = VERBS.get(line.verb)
    if reader is None:
        raise UnknownVerb(f"there is no verb {line.verb}. The verbs are {', '.join(VERBS)}")
    return reader(line.words)


def _flag(value: bool) -> str:
    return "1" if value else "0"


def _write_welcome(one: messages.Welcome) -> bytes:
    words = {
        "v": str(numbers.VERSION),
        "epoch": one.epoch,
        "client": str(one.client),
        "container": one.container,
        "mode": one.mode.value,
        "gpus": ",".join(one.gpus),
        "slot": str(one.slot),
        **({} if one.memory is None else {"memory": str(one.memory)}),
        "allocation": one.allocation.value,
        "on_loss": one.on_loss.value,
        "announce_ms": str(one.announce_ms),
        "grace_ms": str(one.grace_ms),
        "flight_ms": str(one.flight_ms),
        "alone_flight_ms": str(one.alone_flight_ms),
        "fds": "gate,ledger",
    }
    return encode(Line("welcome", words))


def _write_grant(one: messages.Grant) -> bytes:
    quiet = "" if one.waiting else f" quiet_ms={one.quiet_ms}"
    return f"grant turn={one.turn}{_after_the_turn(one[1:6])}{quiet}\n".encode()


@lru_cache(maxsize=4096)
def _after_the_turn(grant: tuple[tuple[str, ...], int, bool, bool, int]) -> str:
    """Return the part of a grant that repeats.  It is kept, since it is on the path of every hand-off.

    No value here can need an escape.
    """
    gpus, quantum_ms, shared, waiting, keep_ms = grant
    return (
        f" gpus={','.join(gpus)} quantum_ms={quantum_ms} beside={_flag(shared)}"
        f" {f'waiting=1 keep_ms={keep_ms}' if waiting else 'waiting=0'}"
    )


def _write_wanted(one: messages.Wanted) -> bytes:
    return f"wanted turn={one.turn} keep_ms={one.keep_ms}\n".encode()


def _write_yield(one: messages.Yield) -> bytes:
    return f"yield turn={one.turn} grace_ms={one.grace_ms}\n".encode()


def _write_revoked(one: messages.Revoked) -> bytes:
    return f"revoked turn={one.turn} reason={one.reason}\n".encode()


def _write_reserved(one: messages.Reserved) -> bytes:
    return f"reserved gpu={one.gpu} bytes={one.bytes}\n".encode()


def _write_complaint(one: messages.Complaint) -> bytes:
    verb = {"verb": one.verb} if one.verb else {}
    wait = {"wait": "1"} if one.wait else {}
    return encode(Line("error", {"code": one.code, **verb, **wait, "message": one.message[:400]}))


WRITERS: dict[type, Callable[..., bytes]] = {
    messages.Welcome: _write_welcome,
    messages.Grant: _write_grant,
    messages.Wanted: _write_wanted,
    messages.Yield: _write_yield,
    messages.Revoked: _write_revoked,
    messages.Reserved: _write_reserved,
    messages.Complaint: _write_complaint,
}


def write(message: messages.Answer) -> bytes:
    """Return the line of a message, newline included."""
    return WRITERS[type(message)](message)
