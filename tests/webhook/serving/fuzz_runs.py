"""Fuzzing runs of a given length against a server of their own."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import yaml

from tests.fakes.random_pods import random_namespace, random_pod
from tests.webhook.admission.properties import check_properties
from tests.webhook.cases import OPTED_IN, review_of
from tests.webhook.files import Files
from tests.webhook.load import Connection, body
from tests.webhook.real import Server, serving
from tests.webhook.serving.fuzz import Pipeline, fuzz
from webhook.admission.json_fields import Json
from webhook.certs.files import write_set

_NAMESPACES = 20


@contextmanager
def served(*arguments: str) -> Iterator[tuple[Server, Files]]:
    """Start a server with twenty opted-in namespaces of random settings."""
    with tempfile.TemporaryDirectory() as name:
        files = Files(Path(name))
        write_set(files.folder, ("127.0.0.1",), days=2)
        namespaces = [
            {"kind": "Namespace", "metadata": {"name": f"team-{index}", "labels": OPTED_IN, "annotations": found}}
            for index in range(_NAMESPACES)
            for found in [random_namespace(Random(index))]
        ]
        files.namespaces.write_text(yaml.safe_dump_all(namespaces))
        with serving(files.cert, files.key, *files.arguments, *arguments, log=files.folder / "log") as server:
            yield server, files


def fuzz_raw(mutations: int) -> str:
    """Send raw mutations; the server must answer each and go on."""
    with served() as (server, files):
        figures = fuzz(server.port, files.authority, mutations=mutations, seed=1)
        assert Connection(server.port, files.authority).post(body())[0] == 200
    return figures


def fuzz_pods(pods: int) -> str:
    """Send generated pods; the properties must hold for each."""
    verdicts: Counter[str] = Counter()
    with served() as (server, files):
        pipeline = Pipeline(server.port, files.authority)
        for seed in range(pods):
            random = Random(seed)

            def ask(pod: Json, namespace: str = f"team-{seed % _NAMESPACES}") -> Json:
                ((status, content),) = pipeline.ask([json.dumps(review_of(pod, namespace=namespace)).encode()])
                assert status == b"200", content
                response: Json = json.loads(content)["response"]
                return response

            verdicts[check_properties(random_pod(random), ask)] += 1
        pipeline.close()
    return ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
