"""The API client: which kubeconfig is used, and how answers are handled."""

import subprocess
import sys
from pathlib import Path

import pytest

from adapters.errors import Absent, ApiError, Conflict, Forbidden, Gone, NoCluster, Unreachable
from adapters.kubernetes.client import MERGE_PATCH, Way, choose, connect, path_of
from tests.fakes.api_server import FakeApiServer, Lines, Reply, listed, thing

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
HOME = {"HOME": "/home/someone"}
USUAL = "/home/someone/.kube/config"
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: n, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: n, user: {}}]
contexts: [{name: n, context: {cluster: n, user: n}}]
current-context: n
"""


# ---------------------------------------------------------------------------------------------- which
@pytest.mark.parametrize(
    ("flag", "environ", "files", "way"),
    [
        pytest.param(
            "/f", POD | HOME | {"KUBECONFIG": "/k"}, (TOKEN, USUAL), ("/f", "--kubeconfig"), id="the flag goes first"
        ),
        pytest.param(
            "", POD | HOME | {"KUBECONFIG": "/k"}, (TOKEN, USUAL), ("/k", "KUBECONFIG"), id="the variable is second"
        ),
        pytest.param("", {"KUBECONFIG": "/a:/b"}, (), ("/a:/b", "KUBECONFIG"), id="the variable may name several"),
        pytest.param("", POD | HOME, (TOKEN, USUAL), ("", "the pod's service account"), id="a pod uses its account"),
        pytest.param("", POD | HOME, (USUAL,), (USUAL, "~/.kube/config"), id="a pod without an account has a home"),
        pytest.param("", HOME, (TOKEN, USUAL), (USUAL, "~/.kube/config"), id="elsewhere the home is last"),
        pytest.param(
            "", HOME | {"KUBECONFIG": ""}, (USUAL,), (USUAL, "~/.kube/config"), id="an empty variable is none"
        ),
    ],
)
def test_which_kubeconfig_is_chosen(
    flag: str, environ: dict[str, str], files: tuple[str, ...], way: tuple[str, str]
) -> None:
    assert choose(flag, environ, is_file=lambda path: str(path) in files) == Way(*way)


@pytest.mark.parametrize(
    ("environ", "cause"),
    [
        pytest.param(HOME, f"this is no pod, and {USUAL} does not exist", id="outside of a pod"),
        pytest.param(HOME | POD, "this pod has no service account token", id="in a pod without an account"),
        pytest.param({}, "/.kube/config does not exist", id="without a home"),
    ],
)
def test_without_any_kubeconfig_the_error_says_how_to_fix_it(environ: dict[str, str], cause: str) -> None:
    with pytest.raises(NoCluster) as caught:
        choose("", environ, is_file=lambda _: False)

    assert cause in str(caught.value)
    assert str(caught.value).endswith("Run in a pod with a service account, or set KUBECONFIG to a kubeconfig.")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(None, id="not there"),
        pytest.param("some words", id="plain text"),
        pytest.param("a: [", id="no YAML"),
        pytest.param("contexts: 3", id="of other parts"),
        pytest.param(KUBECONFIG.replace("server:", "certificate-authority: /nowhere, server:"), id="without its CA"),
    ],
)
def test_an_unusable_kubeconfig_is_named_with_the_setting_that_named_it(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(NoCluster) as caught:
        connect()

    assert caught.value.cause.startswith(f"{file} is no kubeconfig that can be used (")
    assert caught.value.cause.endswith("; named by KUBECONFIG)")
    assert "\n" not in str(caught.value)


def test_the_variable_is_read_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(Unreachable, match="GET /version"):
        connect().call("GET", "/version", seconds=5)


@pytest.mark.parametrize("module", ["client", "watch", "events", "manifests", "backoff"])
def test_importing_an_adapter_does_not_import_the_client(module: str) -> None:
    code = f"import sys, adapters.kubernetes.{module}; print({{'kubernetes', 'urllib3'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


# ---------------------------------------------------------------------------------------------- calls
@pytest.mark.parametrize(
    ("parts", "path"),
    [
        pytest.param(("nodes", "a"), "/api/v1/nodes/a", id="plain"),
        pytest.param(("namespaces", "a/../b?c"), "/api/v1/namespaces/a%2F..%2Fb%3Fc", id="a name that is no name"),
    ],
)
def test_a_path_holds_its_names_whole(parts: tuple[str, ...], path: str) -> None:
    assert path_of("/api/v1", *parts) == path


def test_a_call_sends_query_type_and_body(fake: FakeApiServer) -> None:
    fake.answers = [Reply(thing("n", 3))]
    found = fake.api.call("PATCH", "/api/v1/nodes/n", {"a": None}, query={"q": "x=y"}, content_type=MERGE_PATCH)
    (request,) = fake.requests

    assert found == thing("n", 3)
    assert (request.method, request.query, request.body) == ("PATCH", {"q": "x=y"}, {"a": None})
    assert request.content_type == MERGE_PATCH


def test_an_object_that_is_not_there_is_found_as_nothing(fake: FakeApiServer) -> None:
    fake.answers = [Reply({"message": "not found"}, 404), Reply(thing("n", 3))]

    assert fake.api.find("/api/v1/nodes/n") is None
    assert fake.api.find("/api/v1/nodes/n") == thing("n", 3)


@pytest.mark.parametrize(
    ("status", "kind", "is_temporary"),
    [
        pytest.param(401, Forbidden, False, id="401"),
        pytest.param(403, Forbidden, False, id="403"),
        pytest.param(404, Absent, False, id="404"),
        pytest.param(409, Conflict, False, id="409"),
        pytest.param(410, Gone, False, id="410"),
        pytest.param(422, ApiError, False, id="422"),
        pytest.param(429, ApiError, True, id="429"),
        pytest.param(500, ApiError, True, id="500"),
    ],
)
def test_each_status_is_an_error_with_the_servers_words(
    fake: FakeApiServer, status: int, kind: type[ApiError], is_temporary: bool
) -> None:
    fake.answers = [Reply({"message": "for a\nreason"}, status)]
    with pytest.raises(ApiError) as caught:
        fake.api.call("GET", "/api/v1/nodes/n")

    assert (type(caught.value), caught.value.is_temporary) == (kind, is_temporary)
    assert str(caught.value) == f"the API server answers GET /api/v1/nodes/n with {status}: for a reason"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply(b'{"kind": "Secret",', missing=5000), id="a body that breaks off"),
        pytest.param(Reply(b'{"mess', 500, missing=5000), id="an error whose body breaks off"),
        pytest.param(Reply(b"<html>welcome</html>"), id="a page of a proxy"),
        pytest.param(Reply([1]), id="no object"),
    ],
)
def test_an_answer_that_is_not_json_is_one_sentence(fake: FakeApiServer, reply: Reply) -> None:
    fake.answers = [reply]
    with pytest.raises(Unreachable, match="GET /api/v1/nodes/n") as caught:
        fake.api.call("GET", "/api/v1/nodes/n")

    assert caught.value.is_temporary
    assert "\n" not in str(caught.value)


def test_a_call_that_fails_is_not_repeated(fake: FakeApiServer, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG.replace("https://127.0.0.1:1", fake.url))
    fake.answers = [Reply(status=0)]
    with pytest.raises(Unreachable):
        connect(str(file)).call("GET", "/api/v1/nodes/n")

    assert len(fake.requests) == 1


# ---------------------------------------------------------------------------------------------- pages and streams
def test_a_collection_is_read_page_by_page(fake: FakeApiServer) -> None:
    first, last = listed(thing("a", 1), thing("b", 2)), listed(thing("c", 3))
    first["metadata"]["continue"] = "more"
    fake.answers = [Reply(first), Reply(last)]
    names = [item["metadata"]["name"] for item in fake.api.pages("/api/v1/pods", size=2)]

    assert names == ["a", "b", "c"]
    assert [request.query for request in fake.requests] == [{"limit": "2"}, {"limit": "2", "continue": "more"}]


@pytest.mark.parametrize("strange", [{"items": 3}, {"metadata": {}}, {}, {"items": [], "metadata": 3}], ids=str)
def test_a_page_that_is_no_list_is_an_error(fake: FakeApiServer, strange: object) -> None:
    fake.answers = [Reply(strange)]
    with pytest.raises(Unreachable, match="no list"):
        list(fake.api.pages("/api/v1/pods", size=2))


def test_a_stream_that_is_refused_says_why(fake: FakeApiServer) -> None:
    fake.watches = [Reply({"message": "no role"}, 403)]
    with pytest.raises(Forbidden, match="no role"):
        fake.api.open("/api/v1/pods", query={"watch": "true"}, silence=5)


@pytest.mark.parametrize("then", ["cut", "silence"])
def test_a_stream_that_breaks_off_has_given_what_came(fake: FakeApiServer, then: str) -> None:
    fake.watches = [Lines([{"n": 1}, {"n": 2}], then=then)]
    lines = fake.api.open("/api/v1/pods", query={"watch": "true"}, silence=0.2).lines()

    assert [next(lines), next(lines)] == [b'{"n": 1}', b'{"n": 2}']
    with pytest.raises(Unreachable, match="GET /api/v1/pods"):
        next(lines)
