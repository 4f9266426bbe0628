"""HTTP/1 as far as a page needs it: read the head of a request, write an answer.

Owns what is answered to a request that cannot be served.  A request's body is never read.  No I/O.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

LONGEST_HEAD = 8192
"""Bytes.  Prometheus sends some 400."""
PLAIN = "text/plain; charset=utf-8"
METHODS = ("GET", "HEAD")
_STATUS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a page."""

    path: str
    accept: str
    """The forms that the client understands, as its `Accept` header says."""
    with_body: bool = True
    """False for HEAD."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A page."""

    status: int
    content_type: str
    body: bytes


class Refused(Exception):
    """A request that is not served; the answer says why and what would be right."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.answer = sentence_answer(status, sentence)


def sentence_answer(status: int, sentence: str) -> Answer:
    """Return a page that is one line of text."""
    return Answer(status, PLAIN, f"{sentence}\n".encode())


def has_head(received: bytes | bytearray) -> bool:
    """Tell whether the head of a request is complete; lines may end with or without a carriage return."""
    if b"\r\n\r\n" in received or b"\n\n" in received:
        return True
    if len(received) > LONGEST_HEAD:
        raise Refused(431, f"The head of a request may have {LONGEST_HEAD} bytes. Send fewer headers.")
    return False


def read_request(received: bytes, paths: Iterable[str]) -> Request:
    """Return the request for one of these paths; its query string is ignored."""
    first, *rest = received.decode("latin-1").replace("\r\n", "\n").partition("\n\n")[0].split("\n")
    method, target = _split_first_line(first)
    if method not in METHODS:
        raise Refused(405, f"{method[:20]} is not served here. Use {' or '.join(METHODS)}.")
    path = _path_of(target)
    if path not in paths:
        raise Refused(404, f"There is no such page. There are {' and '.join(paths)}.")
    return Request(path, _headers(rest).get("accept", ""), with_body=method != "HEAD")


def _split_first_line(line: str) -> tuple[str, str]:
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise Refused(400, "This is no HTTP/1 request. The first line must be like GET /metrics HTTP/1.1.")
    return words[0], words[1]


def _path_of(target: str) -> str:
    try:
        return urlsplit(target).path
    except ValueError:
        raise Refused(400, "The address cannot be read. Ask for a path such as /metrics.") from None


def _headers(lines: Iterable[str]) -> Mapping[str, str]:
    pairs = (line.partition(":") for line in lines)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def encode_answer(answer: Answer, *, with_body: bool = True) -> bytes:
    """Return the bytes of an answer, after which the connection is closed."""
    head = (
        f"HTTP/1.1 {answer.status} {_STATUS[answer.status]}\r\n"
        f"Content-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        + (f"Allow: {', '.join(METHODS)}\r\n" if answer.status == 405 else "")
        + "Connection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if with_body else b"")
