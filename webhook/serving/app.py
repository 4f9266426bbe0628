"""The HTTP side of reviews: read a body within its limits, let the core decide, answer.

The rule it owns: a review is answered as plain WSGI, before Flask, whose request context costs as much as the decision
itself.  Flask serves the pages: `/healthz`, `/readyz`, and a 404 for every other path.
It owns content type, size, deadline and the number in flight too; each review gets one line in the log and one count.
The trap: parsed JSON takes up to 31 times the memory of its text (measured: `[{"":[]},...]`), and a replica has
512 MiB.  So at most one large body (over 64 KiB) is parsed at a time, and it keeps its turn while its namespace is
asked for; small ones that wait for a namespace share MAX_BYTES_ASKING.
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

from flask import Flask, Response
from werkzeug.exceptions import HTTPException

from webhook.admission.decision import Stage, Volumes
from webhook.admission.json_fields import Json
from webhook.admission.namespace_policy import NamespacePolicy
from webhook.admission.review import Answer, answer, parse, read_request, uid_in
from webhook.errors import (
    BodyTooLarge,
    MalformedReview,
    Overloaded,
    SlowBody,
    WebhookError,
    WrongContentType,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import InputStream, StartResponse, WSGIApplication, WSGIEnvironment

LARGEST_BODY = 4 * 1024 * 1024
"""Bytes.  etcd takes 1.5 MiB an object; an update's review carries two, in JSON."""
MAX_BYTES_IN_FLIGHT = 64 * 1024 * 1024
"""All large bodies together, as they arrive.  Small ones are bounded by their number; no large one keeps them out."""
MAX_BYTES_ASKING = 2 * 1024 * 1024
"""All small bodies together whose namespace is being asked for: some 300 reviews of ordinary pods, and at most 62 MiB
when parsed."""
_SMALL_BODY = _PIECE = 64 * 1024
_PAUSE_SECONDS = 0.002
_JSON = "application/json"
_STAGES = {"/mutate": Stage.MUTATE, "/validate": Stage.VALIDATE}
_log = logging.getLogger(__name__)


class Ledger(Protocol):
    """The place where each review is counted and written down."""

    def record(self, path: str, result: Answer | WebhookError, *, seconds: float, bytes_in: int) -> None: ...


class Namespaces(Protocol):
    """The policies of namespaces: known at once, or asked for while other reviews go on."""

    def known(self, name: str) -> NamespacePolicy | None: ...
    def ask(self, name: str) -> NamespacePolicy: ...


@dataclass(kw_only=True)
class Service:
    """Everything that answering a review needs, and the counts of the reviews that are being answered."""

    namespaces: Namespaces
    ledger: Ledger
    volumes: Volumes = Volumes.AUTO
    most_in_flight: int = 512
    why_unready: Callable[[], str] = field(default=lambda: "")
    """Return the reason why the replica is not ready, or the empty text."""
    in_flight: int = 0
    bytes_in_flight: int = 0
    """The bytes of large bodies."""
    bytes_asking: int = 0
    """The bytes of small bodies whose namespace is being asked for."""
    turn_of_large: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer."""

    status: int
    body: bytes

    @property
    def headers(self) -> list[tuple[str, str]]:
        return [("Content-Type", _JSON), ("Content-Length", str(len(self.body))), *_EXTRA_HEADERS.get(self.status, ())]


_EXTRA_HEADERS = {Overloaded.status: (("Retry-After", "1"),), HTTPStatus.METHOD_NOT_ALLOWED: (("Allow", "POST"),)}


def create_app(service: Service) -> "WSGIApplication":
    """Return the application: reviews as plain WSGI, the other paths by Flask."""
    pages = create_pages(service)

    def serve(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["PATH_INFO"] not in _STAGES:
            return pages(environ, start_response)
        method = environ["REQUEST_METHOD"]
        reply = review(service, environ) if method == "POST" else _NOT_A_POST
        start_response(_STATUS_LINES[reply.status], reply.headers)
        return (reply.body,) if method != "HEAD" else ()

    return serve


_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


def create_pages(service: Service) -> Flask:
    """Return the pages for probes and people."""
    app = Flask("webhook", static_folder=None)
    app.config["PROPAGATE_EXCEPTIONS"] = False

    @app.get("/healthz")
    def healthz() -> Response:
        return Response("ok\n", mimetype="text/plain")

    @app.get("/readyz")
    def readyz() -> Response:
        reason = service.why_unready()
        return Response(f"{reason or 'ok'}\n", status=503 if reason else 200, mimetype="text/plain")

    @app.errorhandler(HTTPException)
    def refuse(error: HTTPException) -> Response:
        reply = _refuse(error.code or 500, f"{error.name}: {_HINT}")
        return Response(reply.body, reply.status, reply.headers)

    return app


def review(service: Service, environ: "WSGIEnvironment") -> Reply:
    """Answer one review; count it and log it."""
    began = time.perf_counter()
    service.in_flight += 1
    body, counted, uid, path = b"", 0, "", environ["PATH_INFO"]
    result: Answer | WebhookError
    try:
        body, counted = _read_body(service, environ)
        with _in_turn(service) if counted else _AT_ONCE:
            parsed = parse(body)
            uid = uid_in(parsed)
            asked = read_request(parsed, _STAGES[path])
            policy = service.namespaces.known(asked.namespace)
            if policy is None:
                policy = _ask(service, asked.namespace, bytes_held=0 if counted else len(body))
            result = answer(asked, policy, volumes=service.volumes)
        reply = Reply(200, result.body)
    except WebhookError as error:
        result, reply = error, _refuse(error.status, str(error), uid)
    except Exception as error:  # noqa: BLE001  a fault of ours: the trace goes to the log, never to the caller
        _log.error("a review could not be answered", exc_info=error)
        result = WebhookError("the review could not be answered: see the webhook's log")
        reply = _refuse(result.status, str(result), uid)
    finally:
        service.in_flight -= 1
        service.bytes_in_flight -= counted
    service.ledger.record(path, result, seconds=time.perf_counter() - began, bytes_in=len(body))
    return reply


_AT_ONCE = nullcontext()


@contextmanager
def _in_turn(service: Service) -> Iterator[None]:
    """Wait until no other large body is being decided, and let small ones pass first.

    A decision cannot be put aside once it is begun, and that of a large body takes half a second.
    """
    with service.turn_of_large:
        time.sleep(_PAUSE_SECONDS)
        yield


def _ask(service: Service, namespace: str, *, bytes_held: int) -> NamespacePolicy:
    """Ask for a namespace while its review waits, parsed; bound the memory of all that wait."""
    if service.bytes_asking + bytes_held > MAX_BYTES_ASKING:
        raise Overloaded(
            "more reviews wait for their namespaces than this replica takes: ask again, or run more replicas"
        )
    service.bytes_asking += bytes_held
    try:
        return service.namespaces.ask(namespace)
    finally:
        service.bytes_asking -= bytes_held


def _read_body(service: Service, environ: "WSGIEnvironment") -> tuple[bytes, int]:
    """Return the body, and how many of its bytes count as bytes in flight."""
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
    """Read a body in pieces and count each as it comes: a client that only announces a large body keeps nobody out."""
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
    if service.bytes_in_flight > MAX_BYTES_IN_FLIGHT:
        raise Overloaded("more bytes of reviews at once than this replica takes: ask again, or run more replicas")


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {LARGEST_BODY} bytes: no review of a pod is")


def _refuse(status: int, text: str, uid: str = "") -> Reply:
    content: Json = {"error": text}
    if uid:
        content["uid"] = uid
    return Reply(status, json.dumps(content).encode() + b"\n")


_HINT = "POST an AdmissionReview to /mutate or /validate"
_NOT_A_POST = _refuse(HTTPStatus.METHOD_NOT_ALLOWED, f"Method Not Allowed: {_HINT}")
