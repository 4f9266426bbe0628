"""The time that the API server spends on our admission, by its own metric, and pods that are made to be expensive.

The figures are sums over the controllers that ask policies and webhooks: Kubernetes' own policies are none by default.
"""

import itertools
import string
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Measured:
    """One request: its answer, and the seconds of admission that are ours."""

    answer: Answer
    seconds: float


def many_annotations(number: int = MANY) -> dict[str, str]:
    """Return so many annotations of four letters; 60,000 fit into the 256 KiB that the API server allows."""
    keys = itertools.product(string.ascii_lowercase + string.digits, repeat=4)
    return {"".join(key): "" for key in itertools.islice(keys, number)}


def measure(client: ApiClient, method: str, path: str, body: Json, *, kind: str = "application/json") -> Measured:
    """Send one request, and read the metric before and after it.  No other request may run beside it."""
    before = seconds_of_admission(client)
    answer = client.send(method, path, body, kind=kind)
    return Measured(answer, seconds_of_admission(client) - before)


def seconds_of_admission(client: ApiClient) -> float:
    """Return the seconds that policies and webhooks have taken since the API server started."""
    lines = client.text("/metrics").splitlines()
    ours = (line for line in lines if line.startswith(_METRIC) and any(f'name="{it}"' in line for it in _CONTROLLERS))
    return sum(float(line.rpartition(" ")[2]) for line in ours)
