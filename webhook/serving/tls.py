"""TLS with a certificate that follows its files: one context for the life of the process, reloaded when they change.

The rule it owns: a pair is tried in a scratch context first, so that a torn or wrong pair never gets into the live one.
The folder `..data`, as Kubernetes makes it, is resolved once for both files.
"""

import ssl
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from socket import socket
from typing import Any

from webhook.certs.files import expiry_of
from webhook.errors import StartError

Identity = tuple[tuple[str, int, int, int], ...]


class PatientContext(ssl.SSLContext):
    """A context that leaves the handshake to the greenlet of the connection, which has a deadline for it."""

    def wrap_socket(self, sock: socket, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        return super().wrap_socket(sock, *arguments, **{**options, "do_handshake_on_connect": False})


def new_context() -> PatientContext:
    """Return a server context without a certificate."""
    context = PatientContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0  # the API server resumes no sessions, and each ticket makes a handshake slower
    return context


@dataclass(slots=True)
class LiveTls:
    """The live context, and the pair that it serves."""

    cert: Path
    key: Path
    context: PatientContext
    serves: Identity = ()
    expires: datetime | None = None
    problem: str = "no certificate is loaded yet"
    """The reason why the newest files are not served; empty when they are."""

    @classmethod
    def of(cls, cert: str, key: str) -> "LiveTls":
        return cls(Path(cert), Path(key), new_context())

    def refresh(self) -> bool:
        """Load the pair of the files if it is new and whole; return whether the served pair changed."""
        try:
            cert, key = _in_one_generation(self.cert, self.key)
            identity = _identity(cert, key)
            if identity == self.serves:
                self.problem = ""
                return False
            new_context().load_cert_chain(cert, key)
            expires = expiry_of(cert.read_bytes())
            if _identity(cert, key) != identity:
                return False  # the files changed meanwhile; the next look sees them whole
            self.context.load_cert_chain(cert, key)
        except (OSError, ssl.SSLError, ValueError) as error:
            self.problem = f"{self.cert} and {self.key} cannot be served: {error}"
            return False
        self.serves, self.expires, self.problem = identity, expires, ""
        return True

    def require(self) -> None:
        """Load the pair now, or raise StartError."""
        self.refresh()
        if self.problem:
            raise StartError(
                f"{self.problem}. Name a certificate and its key with --cert and --key"
                " (`nvshare-webhook certs issue --out FOLDER` makes a pair)."
            )


def _in_one_generation(cert: Path, key: Path) -> tuple[Path, Path]:
    """Return both files in the folder that `..data` points to now; a Secret's files change by one swap of that link."""
    data = cert.parent / "..data"
    if cert.parent != key.parent or not data.is_symlink():
        return cert, key
    folder = data.resolve()
    return folder / cert.name, folder / key.name


def _identity(*files: Path) -> Identity:
    found = ((path, path.stat()) for path in files)
    return tuple((str(path), stat.st_mtime_ns, stat.st_ino, stat.st_size) for path, stat in found)
