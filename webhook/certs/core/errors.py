"""The package's exception family: each says what stands still and what would move it.

`exit_code` is what the command line returns for it.
"""


class CertificateError(Exception):
    """Base: a certificate could not be read, issued, published or confirmed."""

    exit_code = 1


class BadSetting(CertificateError):
    """A flag or variable with a value that cannot be."""

    exit_code = 2


class Unreachable(CertificateError):
    """The API server did not answer, or does not let us."""

    exit_code = 2


class Conflict(CertificateError):
    """Somebody else wrote the object since we read it: look again."""


class StandsStill(CertificateError):
    """A rotation waits for something that does not come; all that was trusted still is."""

    exit_code = 3
