"""The Flask shell: reads a request's body with its limits, calls the core, says it in HTTP.

Owns content type, size, deadline and the number in flight; one line in the log and one count for each review.
May import Flask, and the room's cores.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from webhook.decision import Stage, Volumes
from webhook.errors import BodyTooLarge, MalformedReview, Overloaded, SlowBody, WebhookError, WrongContentType
from webhook.fields import Json
from webhook.review import Answer, NamespaceLookup, answer, parse, uid_in

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

LARGEST_BODY = 8 * 1024 * 1024
"""Bytes.  etcd takes 1.5 MiB an object; an update's review carries two, in JSON."""
_JSON = "application/json"
_STAGES = {"/mutate": Stage.MUTATE, "/validate": Stage.VALIDATE}
_log = logging.getLogger(__name__)


class Ledger(Protocol):
    """Where each review is counted and written down."""

    def record(self, path: str, result: Answer | WebhookError, *, seconds: float, bytes_in: int) -> None: ...


@dataclass(kw_only=True)
class Service:
    """What the routes need; filled by the server."""

    namespace_of: NamespaceLookup
    ledger: Ledger
    volumes: Volumes = Volumes.AUTO
    most_in_flight: int = 512
    why_unready: Callable[[], str] = field(default=lambda: "")
    """What readiness waits for; the empty text when ready."""
    in_flight: int = 0


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
    body, uid, path = b"", "", environ["PATH_INFO"]
    result: Answer | WebhookError
    try:
        body = _read_body(service, environ)
        parsed = parse(body)
        uid = uid_in(parsed)
        result = answer(parsed, _STAGES[path], namespace_of=service.namespace_of, volumes=service.volumes)
        reply = Reply(200, result.body)
    except WebhookError as error:
        result, reply = error, _said(error.status, str(error), uid)
    except Exception as error:  # noqa: BLE001  a fault of ours: the trace goes to the log, never to the caller
        _log.error("a review could not be answered", exc_info=error)
        result = WebhookError("the review could not be answered: see the webhook's log")
        reply = _said(result.status, str(result), uid)
    finally:
        service.in_flight -= 1
    service.ledger.record(path, result, seconds=time.perf_counter() - began, bytes_in=len(body))
    return reply


def _read_body(service: Service, environ: "WSGIEnvironment") -> bytes:
    if service.in_flight > service.most_in_flight:
        raise Overloaded("more reviews at once than this replica takes: ask again, or run more replicas")
    kind = environ.get("CONTENT_TYPE", "")
    if kind != _JSON and kind.partition(";")[0].strip().lower() != _JSON:
        raise WrongContentType(f"the content type is {kind[:80]!r}: send {_JSON}")
    if int(environ.get("CONTENT_LENGTH") or 0) > LARGEST_BODY:
        raise _too_large()
    try:
        body: bytes = environ["wsgi.input"].read(LARGEST_BODY + 1)
    except TimeoutError:
        raise SlowBody("the body did not arrive in time: send it whole") from None
    except OSError:
        raise MalformedReview("the body broke off: send it whole") from None
    if len(body) > LARGEST_BODY:
        raise _too_large()
    if not body:
        raise MalformedReview("the body is empty: send an AdmissionReview")
    return body


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {LARGEST_BODY} bytes: no review of a pod is")


def _said(status: int, text: str, uid: str = "") -> Reply:
    said: Json = {"error": text}
    if uid:
        said["uid"] = uid
    return Reply(status, json.dumps(said).encode() + b"\n")
