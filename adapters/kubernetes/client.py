"""The API server, by the official client: which kubeconfig, one call, one stream; objects stay raw JSON.

It owns the rule of the kubeconfig (`choose`) and the translation of every fault into `adapters.errors`.
The client's models are never used: they cost tens of megabytes for a few fields.  The client itself is imported by
the first `connect`, since it takes 33 MB and, on a cold disk, seconds.
No call is repeated here: callers have their own pace.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from adapters.errors import Absent, ApiError, Conflict, Forbidden, Gone, NoCluster, Unreachable

Json = dict[str, Any]
Seconds = float

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_CALL_SECONDS = 10.0
_CONNECT_SECONDS = 5.0
_HEALTHY = 300
_PIECE = 65536
_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_STATUSES: dict[int, type[ApiError]] = {401: Forbidden, 403: Forbidden, 404: Absent, 409: Conflict, 410: Gone}
_MALFORMED = (OSError, ValueError, TypeError, AttributeError, LookupError)
"""What the client's reader raises over the parts of a file that is no kubeconfig."""


# ---------------------------------------------------------------------------------------------- which API server
@dataclass(frozen=True, slots=True)
class Way:
    """How to reach the API server: by a kubeconfig, or as a pod does."""

    file: str
    """Empty: the pod's service account."""
    named_by: str


def choose(kubeconfig: str, environ: Mapping[str, str], *, is_file: Callable[[Path], bool]) -> Way:
    """Return the first that is there: the flag, KUBECONFIG, the pod's service account, ~/.kube/config."""
    if kubeconfig:
        return Way(kubeconfig, "--kubeconfig")
    if environ.get("KUBECONFIG"):
        return Way(environ["KUBECONFIG"], "KUBECONFIG")
    if environ.get("KUBERNETES_SERVICE_HOST") and is_file(_TOKEN):
        return Way("", "the pod's service account")
    usual = Path(environ.get("HOME") or "/") / ".kube" / "config"
    if is_file(usual):
        return Way(str(usual), "~/.kube/config")
    pod = "this pod has no service account token" if environ.get("KUBERNETES_SERVICE_HOST") else "this is no pod"
    raise NoCluster(f"no cluster is known: no kubeconfig is named, {pod}, and {usual} does not exist")


def load_library() -> Any:
    """Import the official client, which ships no types."""
    import kubernetes.client
    import kubernetes.config

    return kubernetes


def connect(kubeconfig: str = "") -> "ApiServer":
    """Return the API server that `choose` finds; nothing is sent yet."""
    way = choose(kubeconfig, os.environ, is_file=Path.is_file)
    library = load_library()
    configuration = library.client.Configuration()
    try:
        if way.file:
            library.config.load_kube_config(way.file, client_configuration=configuration)
        else:
            library.config.load_incluster_config(client_configuration=configuration)
        configuration.retries = False
        return ApiServer(library.client.ApiClient(configuration))
    except (library.config.ConfigException, *_yaml_faults(), *_MALFORMED) as error:
        what = f"{way.file} is no kubeconfig that can be used" if way.file else "the service account cannot be used"
        raise NoCluster(f"{what} ({_one_line(error)}; named by {way.named_by})") from None


def _yaml_faults() -> tuple[type[Exception], ...]:
    import yaml  # the client reads kubeconfigs with it, and lets its errors through

    return (yaml.YAMLError,)


# ---------------------------------------------------------------------------------------------- calls
def path_of(group: str, *parts: str) -> str:
    """Return an object's path, such as `path_of("/api/v1", "namespaces", name)`; names may hold anything."""
    return "/".join((group, *(quote(part, safe="") for part in parts)))


class ApiServer:
    """One API server; every fault of a call is an `ApiError`."""

    def __init__(self, client: Any) -> None:
        import urllib3.exceptions  # comes with the official client

        self._client = client
        # the client builds headers and URLs late: a token with a line feed is a ValueError of the first call
        library = load_library()
        self._faults = (
            library.client.OpenApiException,
            library.config.ConfigException,
            urllib3.exceptions.HTTPError,
            *(OSError, ValueError),
        )

    def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        seconds: Seconds = _CALL_SECONDS,
    ) -> Json:
        """Return the answer's object."""
        what = f"{method} {path}"
        try:
            answer = self._send(method, path, body, query, content_type, seconds)
            status, content = answer.status, answer.data  # read to its end: a body breaks off, too
        except self._faults as error:
            raise _unreachable(what, error) from None
        if status >= _HEALTHY:
            raise error_of(status, content, what)
        return _object_in(content, what)

    def find(self, path: str, *, seconds: Seconds = _CALL_SECONDS) -> Json | None:
        """Return an object; None where there is none."""
        try:
            return self.call("GET", path, seconds=seconds)
        except Absent:
            return None

    def pages(self, path: str, *, size: int, seconds: Seconds = _CALL_SECONDS) -> Iterator[Json]:
        """Yield every object of a collection, read page by page."""
        token = None
        while token != "":
            query = {"limit": str(size)} | ({"continue": token} if token else {})
            page = self.call("GET", path, query=query, seconds=seconds)
            items, metadata = page.get("items"), page.get("metadata")
            if not isinstance(items, list) or not isinstance(metadata, dict):
                raise Unreachable(f"what answers GET {path} is no API server: the answer is no list of objects")
            yield from items
            token = metadata.get("continue") or ""

    def open(self, path: str, *, query: Mapping[str, str], silence: Seconds) -> "Stream":
        """Return the answer as lines that come one by one; one that says nothing for `silence` breaks off."""
        what = f"GET {path}"
        try:
            answer = self._send("GET", path, None, query, JSON, (_CONNECT_SECONDS, silence))
            content = answer.data if answer.status >= _HEALTHY else b""
        except self._faults as error:
            raise _unreachable(what, error) from None
        if answer.status >= _HEALTHY:
            raise error_of(answer.status, content, what)
        return Stream(answer, what, self._faults)

    def _send(
        self,
        method: str,
        path: str,
        body: Json | None,
        query: Mapping[str, str] | None,
        content_type: str,
        timeout: Seconds | tuple[Seconds, Seconds],
    ) -> Any:
        request = self._client.param_serialize(
            method=method,
            resource_path=path,
            query_params=list((query or {}).items()),
            header_params={"Accept": JSON, "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        return self._client.call_api(*request, _request_timeout=timeout).response


class Stream:
    """Lines of an answer that has no end."""

    def __init__(self, answer: Any, what: str, faults: tuple[type[Exception], ...]) -> None:
        self._answer, self._what, self._faults = answer, what, faults

    def lines(self) -> Iterator[bytes]:
        """Yield each line as it comes; an ApiError where the stream breaks off."""
        rest = b""
        pieces = iter(self._answer.stream(_PIECE))
        while True:
            try:
                piece = next(pieces, None)
            except self._faults as error:
                raise _unreachable(self._what, error) from None
            if piece is None:
                return
            *whole, rest = (rest + piece).split(b"\n")
            yield from (line for line in whole if line)

    def shut_down(self) -> None:
        """End the stream from another thread: its reader wakes up."""
        with contextlib.suppress(RuntimeError, *self._faults):  # it has ended meanwhile
            self._answer.shutdown()

    def close(self) -> None:
        """Give the connection back."""
        self._answer.close()


# ---------------------------------------------------------------------------------------------- faults
def error_of(status: int, body: bytes, what: str) -> ApiError:
    """Return the error that an answer is."""
    try:
        said = str(json.loads(body).get("message", ""))
    except (ValueError, AttributeError):
        said = body.decode(errors="replace")
    text = f"the API server answers {what} with {status}: {' '.join(said.split())[:300]}"
    return _STATUSES.get(status, ApiError)(text, status=status)


def _unreachable(what: str, error: Exception) -> Unreachable:
    return Unreachable(f"the API server does not answer {what}: {_one_line(error)}")


def _object_in(body: bytes, what: str) -> Json:
    try:
        answer = json.loads(body or b"{}")
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Unreachable(f"what answers {what} is no API server: {body[:80]!r} is no JSON object. A proxy in between?")
    return answer


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
