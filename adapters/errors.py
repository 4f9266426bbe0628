"""What goes wrong between us and the outside: one family for every adapter.

A text is one sentence that needs no traceback.  Each room turns the family into its own errors where it calls an
adapter.
"""


class AdapterError(Exception):
    """Base: something outside of this process did not do what was asked."""


class NoCluster(AdapterError):
    """No API server is known, or the kubeconfig cannot be used."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"{cause}. Run in a pod with a service account, or set KUBECONFIG to a kubeconfig.")
        self.cause = cause
        """Without the remedy: a room may know a better one."""


class ApiError(AdapterError):
    """The API server did not do what was asked."""

    def __init__(self, text: str, *, status: int = 0) -> None:
        super().__init__(text)
        self.status = status
        """The HTTP status; 0 where none came."""

    @property
    def is_temporary(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status == 0 or self.status == 429 or self.status >= 500


class Unreachable(ApiError):
    """No answer, half an answer, or the answer of something that is no API server."""


class Forbidden(ApiError):
    """A role is missing."""


class Absent(ApiError):
    """The object does not exist."""


class Conflict(ApiError):
    """Another writer changed the object since it was read."""


class Gone(ApiError):
    """The API server has forgotten the version that a watch or a page wants to go on from."""
