"""The Flask shell: reads a request's body with its limits, calls the core, says it in HTTP.

Owns content type, size, deadline and the number in flight; one line in the log and one count for each review.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from webhook.admission.decision import Stage, Volumes
from webhook.admission.json_fields import Json
from webhook.admission.review import Answer, NamespaceLookup, answer, parse, uid_in
from webhook.errors import (
    BodyTooLarge,
    MalformedReview,
    NamespaceUnknown,
    Overloaded,
    SlowBody,
    WebhookError,
    WrongContentType,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import InputStream, StartResponse, WSGIApplication, WSGIEnvironment

LARGEST_BODY = 4 * 1024 * 1024
"""Bytes.  etcd takes 1.5 MiB an object; an update's review carries two, in JSON."""
MOST_BYTES_IN_FLIGHT = 64 * 1024 * 1024
"""Of large bodies together, as they arrive.  Small ones are bounded by their number: large ones never keep them out."""
_SMALL_BODY = _PIECE = 64 * 1024
_PAUSE_SECONDS = 0.002
_JSON = "application/json"
_STAGES = {"/mutate": Stage.MUTATE, "/validate": Stage.VALIDATE}
_log = logging.getLogger(__name__)


class Ledger(Protocol):
    """Where each review is counted and written down."""

    def record(self, path: str, result: Answer | WebhookError, *, seconds: float, bytes_in: int) -> None: ...


@dataclass(kw_only=True)
class Service:
    """What the routes need; filled by the server."""

    known_namespace: NamespaceLookup
    """At once, or NamespaceUnknown."""
    namespace_of: NamespaceLookup
    """By asking, while other reviews go on."""
    ledger: Ledger
    volumes: Volumes = Volumes.AUTO
    most_in_flight: int = 512
    why_unready: Callable[[], str] = field(default=lambda: "")
    """What readiness waits for; the empty text when ready."""
    in_flight: int = 0
    bytes_in_flight: int = 0
    """Of large bodies."""
    turn_of_large: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer."""

    status: int
    body: bytes

    @property
    def headers(self) -> list[tuple[str, str]]:
        retry = [("Retry-After", "1")] if self.status == Overloaded.status else []
        return [("Content-Type", _JSON), ("Content-Length", str(len(self.body))), *retry]


def create_app(service: Service) -> Flask:
    """The routes, around what the server has put together."""
    app = Flask("webhook", static_folder=None)
    app.config["PROPAGATE_EXCEPTIONS"] = False

    def reviews() -> Response:
        reply = review(service, request.environ)
        return Response(reply.body, reply.status, reply.headers)

    for path in _STAGES:
        app.add_url_rule(path, view_func=reviews, methods=["POST"], endpoint=path)

    @app.get("/healthz")
    def healthz() -> Response:
        return Response("ok\n", mimetype="text/plain")

    @app.get("/readyz")
    def readyz() -> Response:
        reason = service.why_unready()
        return Response(f"{reason or 'ok'}\n", status=503 if reason else 200, mimetype="text/plain")

    @app.errorhandler(HTTPException)
    def refuse(error: HTTPException) -> Response:
        reply = _said(error.code or 500, f"{error.name}: POST an AdmissionReview to /mutate or /validate")
        return Response(reply.body, reply.status, reply.headers)

    app.wsgi_app = shortcut(service, app.wsgi_app)  # type: ignore[method-assign,assignment]  # as Flask's manual has it
    return app


def shortcut(service: Service, app: "WSGIApplication") -> "WSGIApplication":
    """Reviews go to the core without Flask's request context, which costs as much as the decision itself."""

    def reviews_first(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "POST" or environ["PATH_INFO"] not in _STAGES:
            return app(environ, start_response)
        reply = review(service, environ)
        start_response(_STATUS_LINES[reply.status], reply.headers)
        return (reply.body,)

    return reviews_first


_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


def review(service: Service, environ: "WSGIEnvironment") -> Reply:
    """The answer to one review, counted and logged."""
    began = time.perf_counter()
    service.in_flight += 1
    body, counted, uid, path = b"", 0, "", environ["PATH_INFO"]
    result: Answer | WebhookError
    try:
        body, counted = _read_body(service, environ)
        with _in_turn(service) if counted else _AT_ONCE:
            parsed = parse(body)
            uid = uid_in(parsed)
            found = _answer_at_once(service, parsed, _STAGES[path])
            if isinstance(found, str):
                parsed = {}  # a large one can be thirty times its body, and many may wait here
                policy = service.namespace_of(found)
                found = answer(parse(body), _STAGES[path], namespace_of=lambda _: policy, volumes=service.volumes)
        result, reply = found, Reply(200, found.body)
    except WebhookError as error:
        result, reply = error, _said(error.status, str(error), uid)
    except Exception as error:  # noqa: BLE001  a fault of ours: the trace goes to the log, never to the caller
        _log.error("a review could not be answered", exc_info=error)
        result = WebhookError("the review could not be answered: see the webhook's log")
        reply = _said(result.status, str(result), uid)
    finally:
        service.in_flight -= 1
        service.bytes_in_flight -= counted
    service.ledger.record(path, result, seconds=time.perf_counter() - began, bytes_in=len(body))
    return reply


_AT_ONCE = nullcontext()


@contextmanager
def _in_turn(service: Service) -> Iterator[None]:
    """Large bodies one after the other, and whoever waits with a small one before each: none of them can be put aside
    once it is begun, and it takes half a second."""
    with service.turn_of_large:
        time.sleep(_PAUSE_SECONDS)
        yield


def _answer_at_once(service: Service, parsed: Json, stage: Stage) -> Answer | str:
    """The answer, or the name of the namespace that must be asked for first."""
    try:
        return answer(parsed, stage, namespace_of=service.known_namespace, volumes=service.volumes)
    except NamespaceUnknown as unknown:
        return unknown.name


def _read_body(service: Service, environ: "WSGIEnvironment") -> tuple[bytes, int]:
    """The body, and how much of it counts as bytes in flight."""
    if service.in_flight > service.most_in_flight:
        raise Overloaded("more reviews at once than this replica takes: ask again, or run more replicas")
    kind = environ.get("CONTENT_TYPE", "")
    if kind != _JSON and kind.partition(";")[0].strip().lower() != _JSON:
        raise WrongContentType(f"the content type is {kind[:80]!r}: send {_JSON}")
    length = int(environ.get("CONTENT_LENGTH") or LARGEST_BODY)  # a chunked one does not say
    if length > LARGEST_BODY:
        raise _too_large()
    stream, counted = environ["wsgi.input"], 0
    try:
        if length > _SMALL_BODY:
            body = _read_large(service, stream)
            counted = len(body)
        else:
            body = stream.read(length)
    except TimeoutError:
        raise SlowBody("the body did not arrive in time: send it whole") from None
    except OSError:
        raise MalformedReview("the body broke off: send it whole") from None
    if not body:
        raise MalformedReview("the body is empty: send an AdmissionReview")
    return body, counted


def _read_large(service: Service, stream: "InputStream") -> bytes:
    """A body in pieces, counted as they come: who only says that much will follow keeps nobody out."""
    pieces: list[bytes] = []
    read = 0
    try:
        while piece := stream.read(_PIECE):
            read += len(piece)
            service.bytes_in_flight += len(piece)
            _check_room(service, read)
            pieces.append(piece)
    except BaseException:
        service.bytes_in_flight -= read
        raise
    return b"".join(pieces)


def _check_room(service: Service, read: int) -> None:
    if read > LARGEST_BODY:
        raise _too_large()
    if service.bytes_in_flight > MOST_BYTES_IN_FLIGHT:
        raise Overloaded("more bytes of reviews at once than this replica takes: ask again, or run more replicas")


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {LARGEST_BODY} bytes: no review of a pod is")


def _said(status: int, text: str, uid: str = "") -> Reply:
    said: Json = {"error": text}
    if uid:
        said["uid"] = uid
    return Reply(status, json.dumps(said).encode() + b"\n")
