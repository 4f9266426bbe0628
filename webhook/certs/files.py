"""Certificates as files: make a set for tests and demos, and read when one ends.

The other modules of `certs` bring certificates into a cluster and rotate them there.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from webhook.certs.core.issue import new_authority, new_leaf
from webhook.errors import StartError

_MAX_DAYS = 36_500


def write_set(folder: Path, hosts: tuple[str, ...], *, days: int) -> None:
    """Write a new `ca.crt`, `tls.crt` and `tls.key` into the folder; the key of the CA is not kept."""
    if not 1 <= days <= _MAX_DAYS:
        raise StartError(f"certificates cannot live for {days} days. Give --days a number from 1 to {_MAX_DAYS}.")
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
    """Write the key into a new file: a process that could read the old file, or has it open, must not read this one."""
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(key)


def expiry_of(pem: bytes) -> datetime:
    """Return when the first certificate in the text ends."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc
