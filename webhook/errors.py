"""The errors of this room: a review that cannot be answered, a program that cannot start.

`status` is the HTTP status that the API server sees.  A StartError ends the program with one sentence and one remedy.
"""


class WebhookError(Exception):
    """The base of the family."""

    status = 500


class MalformedReview(WebhookError):
    """The body is not an AdmissionReview that we can answer."""

    status = 400


class MalformedObject(MalformedReview):
    """A field that a rule reads has a type that Kubernetes would not accept."""


class WrongContentType(WebhookError):
    """The content type says that the body is no JSON."""

    status = 415


class BodyTooLarge(WebhookError):
    """The body has more bytes than a review can have."""

    status = 413


class SlowBody(WebhookError):
    """The body did not arrive in time."""

    status = 408


class Overloaded(WebhookError):
    """There are more reviews at once than this replica takes; the API server asks again."""

    status = 503


class NotSynced(WebhookError):
    """A namespace is not known yet and could not be fetched; the API server asks again."""

    status = 503


class StartError(WebhookError):
    """The program cannot start as it was told to; the text says what is wrong and how to fix it."""
