"""A small HTTP server in the API server's place: it answers as written, cuts connections, falls silent.

Lists and watches have a script each; when a script is over, a list is empty and a watch says nothing.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import kubernetes.client

from adapters.kubernetes.client import ApiServer

Json = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """One whole answer."""

    body: Any = field(default_factory=dict)
    status: int = 200
    """0: the connection is closed without a word."""
    missing: int = 0
    """The answer promises so many bytes more than come."""

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Lines:
    """The events of a watch, and how it ends: `end`, `cut` or `silence`."""

    events: Sequence[Any] = ()
    then: str = "end"


@dataclass(frozen=True)
class Request:
    """What was asked."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    content_type: str


@dataclass
class FakeApiServer:
    """The scripts, and what was asked; `api` is a client of it."""

    url: str
    answers: list[Reply] = field(default_factory=list)
    watches: list[Lines | Reply] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    news: threading.Condition = field(default_factory=threading.Condition)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def api(self) -> ApiServer:
        configuration = kubernetes.client.Configuration()
        configuration.host, configuration.retries = self.url, False
        return ApiServer(kubernetes.client.ApiClient(configuration))

    def next_for(self, request: Request) -> Lines | Reply:
        with self.news:
            self.requests.append(request)
            self.news.notify_all()
            if "watch" in request.query:
                return self.watches.pop(0) if self.watches else Lines(then="silence")
            return self.answers.pop(0) if self.answers else Reply(listed())

    def versions(self) -> list[str]:
        """Return where each watch began."""
        return [one.query.get("resourceVersion", "") for one in self.requests if "watch" in one.query]

    def wait_for_watches(self, count: int) -> list[str]:
        with self.news:
            assert self.news.wait_for(lambda: len(self.versions()) >= count, 30), self.requests
            return self.versions()

    def wait_for_requests(self, count: int) -> list[Request]:
        with self.news:
            assert self.news.wait_for(lambda: len(self.requests) >= count, 30), self.requests
            return list(self.requests)


def listed(*items: Json, version: str = "10") -> Json:
    """Return a list as the API server answers it."""
    return {"items": list(items), "metadata": {"resourceVersion": version}}


def thing(name: str, version: int, **more: Any) -> Json:
    """Return an object of any kind."""
    return {"metadata": {"name": name, "resourceVersion": str(version)}, **more}


def event(kind: str, item: Json) -> Json:
    """Return one line of a watch."""
    return {"type": kind, "object": item}


GONE = event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})


def _handler_of(server: FakeApiServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            url = urlsplit(self.path)
            content_type = self.headers.get("Content-Type", "")
            request = Request(self.command, url.path, dict(parse_qsl(url.query)), body, content_type)
            reply = server.next_for(request)
            self.say(reply) if isinstance(reply, Reply) else self.stream(reply)

        do_GET = do_POST = do_PUT = do_PATCH = answer  # noqa: N815  as http.server wants them named

        def say(self, reply: Reply) -> None:
            if not reply.status:
                self.close_connection = True
                return
            content = reply.content()
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content) + reply.missing))
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = bool(reply.missing)

        def stream(self, lines: Lines) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for each in lines.events:
                line = json.dumps(each).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            if lines.then == "end":
                self.wfile.write(b"0\r\n\r\n")
            elif lines.then == "silence":
                server.over.wait()
            self.close_connection = lines.then != "end"

    return Handler


@contextmanager
def fake_api_server() -> Iterator[FakeApiServer]:
    """Run the server on a free port."""
    server = FakeApiServer("")
    listener = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(server))
    listener.daemon_threads, listener.block_on_close = True, False
    server.url = f"http://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        listener.shutdown()
        listener.server_close()
        thread.join(10)
