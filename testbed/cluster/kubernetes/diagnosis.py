"""The report that a failed test on a real Kubernetes brings: the last log lines, the pods, their events and logs.

The rule: it explains a failure and never adds one.  What cannot be asked any more is replaced by a remark.
"""

import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from testbed.cluster.errors import ClusterError
from testbed.cluster.kubernetes.control_plane import ControlPlane
from testbed.cluster.machine.processes import last_lines

Section = tuple[str, str]
_LOG_LINES = 12
_EVENTS = 40
"""Only the last ones are shown.  A session of an hour has thousands, and they would hide the reason of the failure."""
_LINE_LENGTH = 400


@contextmanager
def closing(running: AbstractContextManager[object]) -> Iterator[None]:
    """Close a context that was entered by hand."""
    try:
        yield
    finally:
        running.__exit__(None, None, None)


def sections(used: object) -> list[Section]:
    """Return the report's sections for one of a test's fixtures; none for a fixture that is not ours."""
    plane = used if isinstance(used, ControlPlane) else getattr(used, "plane", None)
    if not isinstance(plane, ControlPlane):
        return []
    return [*_objects(plane), *_logs(plane)]


def _objects(plane: ControlPlane) -> Iterator[Section]:
    events = _ask(plane, "get", "events", "--all-namespaces", "--sort-by=.metadata.creationTimestamp", "--no-headers")
    yield "last events", "\n".join(line[:_LINE_LENGTH] for line in events.splitlines()[-_EVENTS:])
    yield "pods", _ask(plane, "get", "pods", "--all-namespaces", "--output=wide")
    unhappy = _ask(
        plane, "get", "pods", "-A", "--no-headers", "--output=custom-columns=:metadata.namespace,:metadata.name"
    )
    for line in unhappy.splitlines()[:10]:
        namespace, _, name = line.strip().partition(" ")
        arguments = ("logs", "--namespace", namespace, name.strip(), "--all-containers", "--prefix", "--tail=40")
        yield f"log of pod {namespace}/{name.strip()}", _ask(plane, *arguments)


def _ask(plane: ControlPlane, *arguments: str) -> str:
    try:
        return plane.kubectl(*arguments, "--request-timeout=5s", check=False)
    except (ClusterError, OSError, subprocess.SubprocessError) as error:
        return f"(could not be asked: {error})"


def _logs(plane: ControlPlane) -> Iterator[Section]:
    for log in sorted(plane.run.logs.glob("*.log")):
        lines = last_lines(log, _LOG_LINES).splitlines()
        yield f"last lines of {log.name}", "\n".join(line[:_LINE_LENGTH] for line in lines)
