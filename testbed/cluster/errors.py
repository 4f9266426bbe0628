"""What can be wrong with a test cluster, each with its remedy.

The rule here: nothing fails with a bare trace.  `MissingError` means this machine cannot run it (tests are skipped,
loudly); `BrokenError` means it should have run and did not (tests fail).
"""


class ClusterError(Exception):
    """Base; refuses to be raised itself, so that a caller always learns which of the two it is."""

    def __init__(self, cause: str, remedy: str) -> None:
        if type(self) is ClusterError:
            raise TypeError("raise MissingError or BrokenError")
        super().__init__(f"{cause}\n  fix: {remedy}")
        self.cause = cause
        self.remedy = remedy


class MissingError(ClusterError):
    """This machine lacks something (root, a package, the network); nothing was started."""


class BrokenError(ClusterError):
    """Something that was started did not do what it must."""
