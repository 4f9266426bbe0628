"""The time that the API server spends on our admission, by its own metric, and pods that are made to be expensive.

The figures are sums over the controllers that ask policies and webhooks: Kubernetes' own policies are none by default.
"""

import itertools
import string
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tests.fakes.pods import container, pod
from tests.webhook.real import Answer, ApiClient
from webhook.admission.json_fields import Json

_METRIC = "apiserver_admission_controller_admission_duration_seconds_sum"
_CONTROLLERS = (
    "ValidatingAdmissionPolicy",
    "MutatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "MutatingAdmissionWebhook",
)
MANY = 60_000
_WAIT_SECONDS = 60.0


_CPU = "process_cpu_seconds_total"
_NAME = "asked-by-the-idle-policy"


@dataclass(frozen=True)
class Measured:
    """One request: its answer, the seconds of admission that are ours, the API server's processor time for all of it.

    Other programs on the machine lengthen the first figure and hardly the second.
    """

    answer: Answer
    seconds: float
    cpu_seconds: float


def many_annotations(number: int = MANY) -> dict[str, str]:
    """Return so many annotations of four letters; 60,000 fit into the 256 KiB that the API server allows."""
    keys = itertools.product(string.ascii_lowercase + string.digits, repeat=4)
    return {"".join(key): "" for key in itertools.islice(keys, number)}


def measure(client: ApiClient, method: str, path: str, body: Json, *, kind: str = "application/json") -> Measured:
    """Send one request, and read the metrics before and after it.  No other request may run beside it."""
    seconds, cpu = _spent(client)
    answer = client.send(method, path, body, kind=kind)
    seconds_then, cpu_then = _spent(client)
    return Measured(answer, seconds_then - seconds, cpu_then - cpu)


def _spent(client: ApiClient) -> tuple[float, float]:
    """Return the seconds that policies and webhooks, and the processor, have taken since the API server started."""
    lines = client.text("/metrics").splitlines()
    ours = (line for line in lines if line.startswith(_METRIC) and any(f'name="{it}"' in line for it in _CONTROLLERS))
    cpu = (line for line in lines if line.startswith(f"{_CPU} "))
    return _sum(ours), _sum(cpu)


def _sum(lines: Iterable[str]) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def idle_policy() -> list[Json]:
    """Return a policy that matches all that ours match on pods, and whose condition holds for one name only."""
    kind, version = "ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["pods", "pods/status"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "never", "expression": f"request.name == '{_NAME}'"}],
        "validations": [{"expression": "false"}],
    }
    bound = {"policyName": "idle", "validationActions": ["Deny"]}
    metadata = {"name": "idle"}
    return [
        {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec},
        {"apiVersion": version, "kind": f"{kind}Binding", "metadata": metadata, "spec": bound},
    ]


def wait_for_idle_policy(client: ApiClient) -> None:
    """Wait until the API server asks it."""
    until = time.monotonic() + _WAIT_SECONDS
    while client.create_pod("off", pod(container("main", None), name=_NAME)).status == 201:
        assert time.monotonic() < until, "the idle policy does not come into force"
        time.sleep(0.1)
