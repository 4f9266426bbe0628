"""The errors of this package; each text says what stands still and what an operator can do.

`exit_code` is the exit code of the command.
"""


class CertificateError(Exception):
    """The base: a certificate could not be read, issued, published or confirmed."""

    exit_code = 1


class BadSetting(CertificateError):
    """A flag or variable has an impossible value."""

    exit_code = 2


class Unreachable(CertificateError):
    """The API server did not answer, or refused us."""

    exit_code = 2


class Conflict(CertificateError):
    """Another writer changed the object since we read it: look again."""


class StandsStill(CertificateError):
    """A rotation waits for an event that does not come; every certificate that was trusted still is."""

    exit_code = 3
