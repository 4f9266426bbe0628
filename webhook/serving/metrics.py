"""The metrics: reviews by verdict and code, latency, bytes, the age of namespaces and the end of the certificate.

The rule it owns: labels hold codes of the table only, never text of a pod, so that no client can make them grow.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from webhook.admission.decision import Verdict
from webhook.admission.review import Answer
from webhook.errors import WebhookError

BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds; the API server's own begin at 5 ms, which would show nothing here."""


def _was_counted(path: str, verdict: Verdict) -> bool:
    """Tell whether `/mutate` has counted the violations: a pod that is only warned of comes to `/validate` too."""
    return path == "/validate" and verdict is Verdict.WARNED


class Metrics:
    """The webhook's own figures, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reviews = Counter(
            "nvshare_webhook_reviews", "Reviews answered", ("path", "verdict", "code"), registry=self.registry
        )
        self._seconds = Histogram(
            "nvshare_webhook_review_seconds",
            "From the first byte of the body to the answer",
            ("path",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._bytes = Counter(
            "nvshare_webhook_review_bytes", "Bytes of reviews read", ("path",), registry=self.registry
        )
        self._violations = Counter(
            "nvshare_webhook_violations",
            "Rules that refused or, in warn mode, would have",
            ("code",),
            registry=self.registry,
        )
        self._children: dict[tuple[str, str, str], tuple[Callable[[], None], Callable[[float], None]]] = {}

    def watch(self, name: str, what: str, read: Callable[[], float]) -> None:
        """Add a figure that is read whenever the metrics are asked for."""
        Gauge(f"nvshare_webhook_{name}", what, registry=self.registry).set_function(read)

    def count(self, path: str, result: Answer | WebhookError, *, seconds: float, bytes_in: int) -> None:
        """Count one review."""
        if isinstance(result, Answer):
            codes = result.decision.codes
            key = (path, result.decision.verdict.value, codes[0] if codes else "")
            if not _was_counted(path, result.decision.verdict):
                for code in codes:
                    self._violations.labels(code).inc()
        else:
            key = (path, "error", str(result.status))
        children = self._children.get(key)
        if children is None:
            children = self._children[key] = (self._reviews.labels(*key).inc, self._seconds.labels(path).observe)
        children[0]()
        children[1](seconds)
        self._bytes.labels(path).inc(bytes_in)
