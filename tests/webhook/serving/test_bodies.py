"""What bodies may cost: their size, all of them together, and what is kept of one while its namespace is asked for."""

import gc
import io
import json
from typing import Any

import pytest

from tests.webhook.load import body
from webhook.admission.namespace_policy import NamespacePolicy, policy_of
from webhook.errors import NamespaceUnknown
from webhook.serving.app import LARGEST_BODY, MOST_BYTES_IN_FLIGHT, Reply, Service, review


class _Nothing:
    """A ledger that keeps nothing."""

    def record(self, path: str, result: Any, *, seconds: float, bytes_in: int) -> None: ...


_POLICY = policy_of("team-a", {"nvshare.com/injection": "enabled"}, {})


def _unknown(name: str) -> NamespacePolicy:
    raise NamespaceUnknown(name)


def _service(**settings: Any) -> Service:
    given = {"known_namespace": lambda _: _POLICY, "namespace_of": lambda _: _POLICY, **settings}
    return Service(ledger=_Nothing(), **given)


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
        pytest.param(LARGEST_BODY, MOST_BYTES_IN_FLIGHT - LARGEST_BODY, 200, id="the last that has room"),
        pytest.param(LARGEST_BODY, MOST_BYTES_IN_FLIGHT - LARGEST_BODY + 1, 503, id="one that has none"),
    ],
)
def test_bodies_are_bounded_each_and_together(size: int, in_flight: int, status: int, chunked: bool) -> None:
    service = _service()
    service.bytes_in_flight = in_flight

    reply = _post(service, _padded(size), chunked=chunked)

    assert (reply.status, service.bytes_in_flight, service.in_flight) == (status, in_flight, 0)
    assert (("Retry-After", "1") in reply.headers) == (status == 503)


def test_an_ordinary_review_is_answered_though_large_ones_fill_the_room() -> None:
    service = _service()
    service.bytes_in_flight = MOST_BYTES_IN_FLIGHT

    assert _post(service, body()).status == 200


def test_nothing_of_a_body_is_kept_parsed_while_its_namespace_is_asked_for() -> None:
    """4 MiB of JSON can become 120 MiB of objects, and any number of reviews can wait for the API server."""
    asked: list[int] = []

    def ask(_: str) -> NamespacePolicy:
        asked.append(sum("xKeptHere" in item for item in gc.get_objects() if type(item) is dict))
        return _POLICY

    sent = json.loads(body())
    sent["request"]["object"]["xKeptHere"] = [{"xKeptHere": []}]
    data = json.dumps(sent).encode()
    del sent

    reply = _post(_service(known_namespace=_unknown, namespace_of=ask), data)

    assert (reply.status, asked) == (200, [0])
    assert json.loads(reply.body)["response"]["patchType"] == "JSONPatch"


def test_large_bodies_are_taken_one_after_the_other() -> None:
    """Under gevent the second would be read, and small ones answered, while the first is asked about."""
    service = _service()
    answered: list[int] = []

    def ask(_: str) -> NamespacePolicy:
        assert not service.turn_of_large.acquire(blocking=False)
        service.known_namespace = lambda _: _POLICY
        answered.append(_post(service, body()).status)
        return _POLICY

    service.known_namespace, service.namespace_of = _unknown, ask
    first = _post(service, _padded(LARGEST_BODY))

    assert (first.status, answered, service.turn_of_large.locked()) == (200, [200], False)
