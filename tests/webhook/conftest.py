"""Certificates for the servers that these tests start."""

import pytest
import yaml

from tests.webhook.files import Files
from webhook.certs.files import write_set


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Make a CA, a serving pair, and a file with a namespace that has opted in (`team-a`) and one that has not."""
    folder = tmp_path_factory.mktemp("webhook")
    write_set(folder, ("127.0.0.1", "localhost"), days=2)
    namespaces = [
        {"kind": "Namespace", "metadata": {"name": "team-a", "labels": {"nvshare.com/injection": "enabled"}}},
        {"kind": "Namespace", "metadata": {"name": "team-b"}},
    ]
    (folder / "namespaces.yaml").write_text(yaml.safe_dump_all(namespaces))
    return Files(folder)
