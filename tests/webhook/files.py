"""Where a test's certificates and namespaces lie."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Files:
    """What `nvshare-webhook certs issue` writes, and a namespace file."""

    folder: Path

    @property
    def cert(self) -> Path:
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        return self.folder / "tls.key"

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def namespaces(self) -> Path:
        return self.folder / "namespaces.yaml"

    @property
    def arguments(self) -> tuple[str, ...]:
        """For `serving`: no cluster, and an end without delay."""
        return ("--namespace-file", str(self.namespaces), "--drain-seconds", "0")
