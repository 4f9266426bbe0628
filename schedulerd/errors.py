"""The exceptions of this room.

The rule it owns: a client gets a `Refused`; its code is one of PROTOCOL.md, and says whether the connection is closed.
An operator gets an `Unusable` before the daemon exits.
"""


class SchedulerError(Exception):
    """The base of all exceptions that this room raises on purpose."""


class Unusable(SchedulerError):
    """The daemon cannot work with a setting, or with a file or folder of this machine.  The text ends with the fix."""


class Refused(SchedulerError):
    """A line is refused.  It is answered with an `error`."""

    code = "bad-line"
    closes = False


class BadForm(Refused):
    """A key is missing, or its value is not of its form."""


class TooLong(Refused):
    """A line is too long."""

    code, closes = "too-long", True


class NoHello(Refused):
    """Another verb came before `hello`, or no line came in time."""

    code, closes = "no-hello", True


class WrongVersion(Refused):
    """The protocol version is not one of this daemon."""

    code, closes = "version", True


class UnknownVerb(Refused):
    """The verb is not in the table."""

    code = "unknown-verb"


class HelloAgain(Refused):
    """A second `hello` came."""

    code = "again"


class NotYours(Refused):
    """The GPU was not given to the container."""

    code = "not-yours"


class NoMemory(Refused):
    """The memory is more than the container's cap, or more than the card."""

    code = "no-memory"


class TooMany(Refused):
    """There are more connections, processes or GPUs than allowed."""

    code, closes = "too-many", True
