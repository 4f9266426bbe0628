"""Certificates as files: a set made for tests and demos, and when the one in a file ends.

How certificates get into a cluster and are rotated there is the business of `certs`.
May import cryptography, `certs.issue` and the room's errors.
"""

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from webhook.certs.issue import new_authority, new_leaf
from webhook.errors import StartError


def write_set(folder: Path, hosts: tuple[str, ...], *, days: int) -> None:
    """A fresh `ca.crt`, `tls.crt` and `tls.key` in the folder; the CA's key is not kept."""
    now = datetime.now(UTC)
    authority = new_authority(now=now, days=days)
    leaf = new_leaf(authority, hosts, now=now, days=days)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ca.crt").write_bytes(authority.certificate)
        (folder / "tls.crt").write_bytes(leaf.certificate)
        key_file = folder / "tls.key"
        key_file.touch(mode=0o600)
        key_file.write_bytes(leaf.key)
    except OSError as error:
        raise StartError(f"the certificates cannot be written to {folder} ({error}). Name another --out.") from None


def expiry_of(pem: bytes) -> datetime:
    """When the first certificate in the text ends."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc
