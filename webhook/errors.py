"""The room's exception family: what the boundary says when it cannot answer a review or start.

`status` is the HTTP status the API server sees; a StartError ends the program with one sentence and one remedy.
"""


class WebhookError(Exception):
    """Base: something was asked of us that we cannot do."""

    status = 500


class MalformedReview(WebhookError):
    """The body is not an AdmissionReview that we can answer."""

    status = 400


class MalformedObject(MalformedReview):
    """A field that a rule reads has a type that Kubernetes would not accept."""


class WrongContentType(WebhookError):
    """Not JSON by its own word."""

    status = 415


class BodyTooLarge(WebhookError):
    """More bytes than a review can have."""

    status = 413


class SlowBody(WebhookError):
    """The body did not arrive in time."""

    status = 408


class Overloaded(WebhookError):
    """More reviews at once than we take; the API server asks again."""

    status = 503


class NotSynced(WebhookError):
    """A namespace is not known yet and could not be fetched; the API server asks again."""

    status = 503


class NamespaceUnknown(NotSynced):
    """A namespace must be asked for, which takes a while."""

    def __init__(self, name: str) -> None:
        super().__init__(f"namespace {name[:253]!r} is not known")
        self.name = name


class StartError(WebhookError):
    """The program cannot start as it was told to; the text holds what is wrong and how to fix it."""
