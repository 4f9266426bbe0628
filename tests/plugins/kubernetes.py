"""pytest fixtures: a real API server, a real node, a namespace for each test.  A plugin of tests/conftest.py.

Where the machine cannot run them, the tests are skipped with the reason and counted at the end; with CI=true that is a
failure.  A failed test brings its logs and events with it.
"""

import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Collection, Generator, Iterator
from typing import Any

import pytest

from testbed.cluster import pins
from testbed.cluster.cache import Say
from testbed.cluster.errors import ClusterError, MissingError
from testbed.cluster.kubernetes import diagnosis
from testbed.cluster.kubernetes.control_plane import ControlPlane, Options, control_plane
from testbed.cluster.kubernetes.node import Node, check_machine, cluster
from testbed.cluster.supplies import build
from tests.plugins import side_by_side

_SKIPPED = "no real Kubernetes here: "
_MARKS = {"api_server": pytest.mark.cluster, "node": pytest.mark.node}

NewNamespace = Callable[..., str]


def unavailable(error: MissingError) -> Any:
    """Skip, loudly; in CI a skip would hide that nothing was tested."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{_SKIPPED}{error}", pytrace=False)
    pytest.skip(f"{_SKIPPED}{error.cause} (fix: {error.remedy})")


def _say(line: str) -> None:
    """Print progress of a first build to the terminal, since it takes minutes."""
    print(f"[cluster] {line}", flush=True)


@pytest.fixture(scope="session")
def api_server() -> Iterator[ControlPlane]:
    """Start etcd and the API server, without scheduler, controllers or node.  Other options: `control_plane`."""
    try:
        running = control_plane(Options(audit=True), say=_say)
        plane = running.__enter__()
    except MissingError as error:
        unavailable(error)
    with diagnosis.closing(running):
        yield plane


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """Start a real node with its own control plane (`node.plane`): kubelet, containerd, CDI, services, controllers."""
    try:
        running = cluster(say=_say)
        first = running.__enter__().nodes[0]
    except MissingError as error:
        unavailable(error)
    with diagnosis.closing(running):
        yield first


@pytest.fixture
def new_namespace(request: pytest.FixtureRequest) -> NewNamespace:
    """Return `new_namespace(labels=…, annotations=…)`: a fresh namespace on the test's node or API server."""
    plane = _plane_of(request)
    return lambda **about: plane.create_namespace(f"t-{secrets.token_hex(4)}", **about)


@pytest.fixture
def namespace(new_namespace: NewNamespace) -> str:
    """Make a namespace for one test."""
    return new_namespace()


def _plane_of(request: pytest.FixtureRequest) -> ControlPlane:
    name = "node" if "node" in request.fixturenames else "api_server"
    plane: ControlPlane = getattr(request.getfixturevalue(name), "plane", None) or request.getfixturevalue(name)
    return plane


# ---------------------------------------------------------------------------------------------- hooks
def pytest_configure() -> None:
    """Let SIGTERM end a session as Ctrl-C does, so that what the fixtures began is taken away."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end_session)


def _end_session(number: int, _: object) -> None:
    pytest.exit("ended by SIGTERM", returncode=128 + number)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses these fixtures, so that `make check` can leave it out."""
    for item in items:
        for fixture, mark in _MARKS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Build what the selected tests need before the first begins: a build of minutes is no test's own time."""
    if session.config.option.collectonly or hasattr(session.config, "workerinput"):
        return  # a worker's tests begin when its controller has built all
    write_line = session.config.get_terminal_writer().line
    try:
        prepare(_needs(session), say=lambda text: write_line(f"[cluster] {text}"))
    except ClusterError as error:
        write_line(f"[cluster] {error}")  # the tests that need it say so again


def _needs(session: pytest.Session) -> set[str]:
    """Return which of "cluster", "node" and "image" the selected tests need; a controller takes all."""
    if session.config.getoption("dist", "no") == side_by_side.DIST:
        return {"cluster", "node", "image"}
    found = {mark.name for item in session.items for mark in item.iter_markers()}
    return found | (
        {"image"} if "testbed.cluster.supplies.image" in sys.modules else set()
    )  # a collected module works with it


def prepare(needs: Collection[str], *, say: Say) -> None:
    if "cluster" in needs or "node" in needs:
        build.control_plane_programs(say=say)
    if "node" in needs and os.geteuid() == 0:
        check_machine(say=say)
        for module in pins.MODULES:
            build.programs(module, say=say)
        if "image" in needs:
            from testbed.cluster.supplies import image

            for target in image.Target:
                image.archive(target, say=say)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for used in getattr(item, "funcargs", {}).values():
            report.sections += diagnosis.sections(used)
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if _SKIPPED in str(report.longrepr)]
    if skipped:
        reasons = sorted({str(report.longrepr[2]).partition(_SKIPPED)[2] for report in skipped})
        terminalreporter.section(f"{len(skipped)} tests on a real Kubernetes were NOT run", yellow=True, bold=True)
        terminalreporter.write_line("\n".join(f"  because {reason}" for reason in reasons))
