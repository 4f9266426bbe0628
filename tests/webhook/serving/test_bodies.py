"""The limits of bodies and of memory, and how often a review is read and its namespace asked for."""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.webhook.load import body
from webhook.admission.namespace_policy import NamespacePolicy, policy_of
from webhook.serving import app
from webhook.serving.app import (
    LARGEST_BODY,
    MAX_BYTES_ASKING,
    MAX_BYTES_IN_FLIGHT,
    Reply,
    Service,
    create_app,
    create_pages,
    review,
)


class _Nothing:
    """A ledger that keeps nothing."""

    def record(self, path: str, result: Any, *, seconds: float, bytes_in: int) -> None: ...


_POLICY = policy_of("team-a", {"nvshare.com/injection": "enabled"}, {})


@dataclass
class _Namespaces:
    """One namespace: known, or asked for; `meanwhile` runs while the API server is asked."""

    is_known: bool = True
    meanwhile: Callable[[], None] = lambda: None
    looked_up: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def known(self, name: str) -> NamespacePolicy | None:
        self.looked_up.append(name)
        return _POLICY if self.is_known else None

    def ask(self, name: str) -> NamespacePolicy:
        self.asked.append(name)
        self.meanwhile()
        return _POLICY


def _service(namespaces: _Namespaces | None = None) -> Service:
    return Service(ledger=_Nothing(), namespaces=namespaces or _Namespaces())


def _padded(size: int) -> bytes:
    return body() + b" " * (size - len(body()))


def _post(service: Service, data: bytes, *, chunked: bool = False) -> Reply:
    length = {} if chunked else {"CONTENT_LENGTH": str(len(data))}
    return review(
        service,
        {"PATH_INFO": "/mutate", "CONTENT_TYPE": "application/json", "wsgi.input": io.BytesIO(data), **length},
    )


@pytest.mark.parametrize("chunked", [False, True], ids=["of known length", "chunked"])
@pytest.mark.parametrize(
    ("size", "in_flight", "status"),
    [
        pytest.param(LARGEST_BODY, 0, 200, id="the largest"),
        pytest.param(LARGEST_BODY + 1, 0, 413, id="one byte too large"),
        pytest.param(LARGEST_BODY, MAX_BYTES_IN_FLIGHT - LARGEST_BODY, 200, id="the last that has room"),
        pytest.param(LARGEST_BODY, MAX_BYTES_IN_FLIGHT - LARGEST_BODY + 1, 503, id="one that has none"),
    ],
)
def test_bodies_are_bounded_each_and_together(size: int, in_flight: int, status: int, chunked: bool) -> None:
    service = _service()
    service.bytes_in_flight = in_flight

    reply = _post(service, _padded(size), chunked=chunked)

    assert (reply.status, service.bytes_in_flight, service.in_flight) == (status, in_flight, 0)
    assert (("Retry-After", "1") in reply.headers) == (status == 503)


def test_large_reviews_never_keep_out_an_ordinary_one() -> None:
    service = _service()
    service.bytes_in_flight = MAX_BYTES_IN_FLIGHT

    assert _post(service, body()).status == 200


def _counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[object]:
    """Count the calls of a function of the app, and let them through."""
    calls: list[object] = []
    function: Callable[..., object] = getattr(app, name)

    def call(*given: object, **named: object) -> object:
        calls.append(name)
        return function(*given, **named)

    monkeypatch.setattr(app, name, call)
    return calls


@pytest.mark.parametrize("is_known", [True, False], ids=["a known namespace", "one that must be asked for"])
@pytest.mark.parametrize("size", [len(body()), 128 * 1024], ids=["a small body", "a large body"])
def test_a_review_is_read_once_and_decided_once(monkeypatch: pytest.MonkeyPatch, is_known: bool, size: int) -> None:
    namespaces = _Namespaces(is_known)
    calls = [_counted(monkeypatch, name) for name in ("parse", "read_request", "answer")]

    assert _post(_service(namespaces), _padded(size)).status == 200

    assert [len(each) for each in calls] == [1, 1, 1]
    assert (namespaces.looked_up, namespaces.asked) == (["team-a"], [] if is_known else ["team-a"])


@pytest.mark.parametrize(
    ("held", "size", "status"),
    [
        pytest.param(MAX_BYTES_ASKING - len(body()), len(body()), 200, id="the last small one that has room"),
        pytest.param(MAX_BYTES_ASKING - len(body()) + 1, len(body()), 503, id="a small one that has none"),
        pytest.param(MAX_BYTES_ASKING, LARGEST_BODY, 200, id="a large one, which has the turn of large ones"),
    ],
)
def test_the_reviews_that_wait_for_a_namespace_are_bounded(held: int, size: int, status: int) -> None:
    seen: list[int] = []
    namespaces = _Namespaces(is_known=False)
    service = _service(namespaces)
    namespaces.meanwhile = lambda: seen.append(service.bytes_asking)
    service.bytes_asking = held

    reply = _post(service, _padded(size))

    assert (reply.status, service.bytes_asking) == (status, held)
    assert (("Retry-After", "1") in reply.headers) == (status == 503)
    assert seen == ([] if status == 503 else [held + (size if size < LARGEST_BODY else 0)])


def test_a_known_namespace_is_answered_though_others_wait_for_theirs() -> None:
    service = _service()
    service.bytes_asking = MAX_BYTES_ASKING

    assert _post(service, body()).status == 200


def test_large_bodies_are_taken_one_after_the_other() -> None:
    """Answer a small body while the namespace of a large one is asked for; a second large one must wait."""
    namespaces = _Namespaces(is_known=False)
    service = _service(namespaces)
    answered: list[int] = []

    def meanwhile() -> None:
        assert not service.turn_of_large.acquire(blocking=False)
        namespaces.is_known = True
        answered.append(_post(service, body()).status)

    namespaces.meanwhile = meanwhile
    first = _post(service, _padded(LARGEST_BODY))

    assert (first.status, answered, service.turn_of_large.locked()) == (200, [200], False)


def test_flask_serves_the_pages_and_no_review() -> None:
    assert {rule.rule for rule in create_pages(_service()).url_map.iter_rules()} == {"/healthz", "/readyz"}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "OPTIONS"])
def test_a_review_that_is_not_posted_is_told_the_method(method: str) -> None:
    said: list[tuple[str, list[tuple[str, str]]]] = []
    serve = create_app(_service())
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": "/mutate"}

    def start_response(status: str, headers: list[tuple[str, str]], *_: object) -> Callable[[bytes], object]:
        said.append((status, headers))
        return lambda _: None

    content = b"".join(serve(environ, start_response))

    ((status, headers),) = said
    assert (status, dict(headers)["Allow"]) == ("405 Method Not Allowed", "POST")
    assert (b"POST an AdmissionReview" in content) == (method != "HEAD")
