"""The Flask shell: reads a request's body with its limits, calls the core, says it in HTTP.

Owns content type, size, deadline and the number in flight; one line in the log and one count for each review.
May import Flask and gevent, and the room's cores.
"""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import gevent
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from webhook.decision import Stage, Volumes
from webhook.errors import BodyTooLarge, MalformedReview, Overloaded, SlowBody, WebhookError, WrongContentType
from webhook.fields import Json
from webhook.review import Answer, NamespaceLookup, answer, parse, uid_in

LARGEST_BODY = 8 * 1024 * 1024
"""Bytes.  etcd takes 1.5 MiB an object; an update's review carries two, in JSON."""
_JSON = "application/json"
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
    body_seconds: float = 10.0
    """How long a body may take to arrive."""
    why_unready: Callable[[], str] = field(default=lambda: "")
    """What readiness waits for; the empty text when ready."""
    in_flight: int = 0


def create_app(service: Service) -> Flask:
    """The routes, around what the server has put together."""
    app = Flask("webhook", static_folder=None)
    app.config["PROPAGATE_EXCEPTIONS"] = False

    @app.post("/mutate")
    def mutate() -> Response:
        return _review(service, Stage.MUTATE)

    @app.post("/validate")
    def validate() -> Response:
        return _review(service, Stage.VALIDATE)

    @app.get("/healthz")
    def healthz() -> Response:
        return Response("ok\n", mimetype="text/plain")

    @app.get("/readyz")
    def readyz() -> Response:
        reason = service.why_unready()
        return Response(f"{reason or 'ok'}\n", status=503 if reason else 200, mimetype="text/plain")

    @app.errorhandler(HTTPException)
    def refuse(error: HTTPException) -> Response:
        return _say(error.code or 500, f"{error.name}: POST an AdmissionReview to /mutate or /validate")

    @app.errorhandler(Exception)
    def fail(error: Exception) -> Response:
        _log.error("a review could not be answered", exc_info=error)
        return _say(500, "the review could not be answered: see the webhook's log")

    return app


def _review(service: Service, stage: Stage) -> Response:
    began = time.perf_counter()
    service.in_flight += 1
    body = b""
    uid = ""
    result: Answer | WebhookError
    try:
        body = _read_body(service)
        review = parse(body)
        uid = uid_in(review)
        result = answer(review, stage, namespace_of=service.namespace_of, volumes=service.volumes)
        response = Response(result.body, mimetype=_JSON)
    except WebhookError as error:
        result = error
        response = _say(error.status, str(error), uid)
    finally:
        service.in_flight -= 1
    service.ledger.record(request.path, result, seconds=time.perf_counter() - began, bytes_in=len(body))
    return response


def _read_body(service: Service) -> bytes:
    if service.in_flight > service.most_in_flight:
        raise Overloaded("more reviews at once than this replica takes: ask again, or run more replicas")
    if request.mimetype != _JSON:
        raise WrongContentType(f"the content type is {request.mimetype[:80]!r}: send {_JSON}")
    if (request.content_length or 0) > LARGEST_BODY:
        raise BodyTooLarge(f"the body is larger than {LARGEST_BODY} bytes: no review of a pod is")
    timeout = gevent.Timeout(service.body_seconds)
    timeout.start()
    try:
        body = request.stream.read(LARGEST_BODY + 1)
    except gevent.Timeout:
        raise SlowBody(f"the body did not arrive within {service.body_seconds:g} s: send it whole") from None
    except OSError:
        raise MalformedReview("the body broke off: send it whole") from None
    finally:
        timeout.close()
    if len(body) > LARGEST_BODY:
        raise BodyTooLarge(f"the body is larger than {LARGEST_BODY} bytes: no review of a pod is")
    if not body:
        raise MalformedReview("the body is empty: send an AdmissionReview")
    return body


def _say(status: int, text: str, uid: str = "") -> Response:
    said: Json = {"error": text}
    if uid:
        said["uid"] = uid
    response = Response(json.dumps(said) + "\n", status=status, mimetype=_JSON)
    if status == Overloaded.status:
        response.headers["Retry-After"] = "1"
    return response
