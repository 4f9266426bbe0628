"""Certificates as files: a set made for tests and demos, and when the one in a file ends.

How certificates get into a cluster and are rotated there is the business of `certs`.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from webhook.certs.core.issue import new_authority, new_leaf
from webhook.errors import StartError

_MOST_DAYS = 36_500


def write_set(folder: Path, hosts: tuple[str, ...], *, days: int) -> None:
    """A fresh `ca.crt`, `tls.crt` and `tls.key` in the folder; the CA's key is not kept."""
    if not 1 <= days <= _MOST_DAYS:
        raise StartError(f"certificates cannot live for {days} days. Give --days a number from 1 to {_MOST_DAYS}.")
    now = datetime.now(UTC)
    authority = new_authority(now=now, days=days)
    try:
        leaf = new_leaf(authority, hosts, now=now, days=days)
    except ValueError:
        odd = next((host for host in hosts if not host.isascii()), hosts[0])
        raise StartError(
            f"{odd!r} cannot stand in a certificate. Give --host an address, or a name in ASCII (xn--…)."
        ) from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ca.crt").write_bytes(authority.certificate)
        (folder / "tls.crt").write_bytes(leaf.certificate)
        _write_key(folder / "tls.key", leaf.key)
    except OSError as error:
        raise StartError(f"the certificates cannot be written to {folder} ({error}). Name another --out.") from None


def _write_key(file: Path, key: bytes) -> None:
    """Anew: who could read the file that was there, or has it open, shall not read this one."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(key)


def expiry_of(pem: bytes) -> datetime:
    """When the first certificate in the text ends."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc
