"""The errors of a test cluster, each with its remedy.

The rule: nothing fails with a bare traceback.  `MissingError` means that this machine cannot run the cluster, so tests
are skipped with the reason.  `BrokenError` means that it should have run and did not, so tests fail.
"""


class ClusterError(Exception):
    """Base of the family.  It cannot be raised itself, so that a caller always learns which of the two it is."""

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
