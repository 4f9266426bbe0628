"""The room's exception family.

`Refused` is what a client hears: the code is one of PROTOCOL.md's, and says whether the connection ends.  `Unusable` is
what an operator hears before the daemon exits.
"""


class SchedulerError(Exception):
    """Base of all that this room raises on purpose."""


class Unusable(SchedulerError):
    """A setting or a place on this machine that the daemon cannot work with; the text ends with the remedy."""


class Refused(SchedulerError):
    """A line that is answered with an `error`."""

    code = "bad-line"
    closes = False


class BadForm(Refused):
    """A key is missing, or its value is not of its form."""


class TooLong(Refused):
    """A line without an end."""

    code, closes = "too-long", True


class NoHello(Refused):
    """Another verb before `hello`, or none in time."""

    code, closes = "no-hello", True


class WrongVersion(Refused):
    """A protocol version that is not ours."""

    code, closes = "version", True


class UnknownVerb(Refused):
    """A verb that is not in the table."""

    code = "unknown-verb"


class HelloAgain(Refused):
    """A second `hello`."""

    code = "again"


class NotYours(Refused):
    """A GPU that the container was not given."""

    code = "not-yours"


class NoMemory(Refused):
    """More memory than the container's cap, or than the card."""

    code = "no-memory"


class TooMany(Refused):
    """More connections, processes or GPUs than there is room for."""

    code, closes = "too-many", True
