"""Certificates: a CA of our own, a leaf under it, and reading what a file holds.

Issues with `cryptography`; how certificates get into a cluster and are rotated there is the rotation's business.
May import cryptography and the room's errors.
"""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from webhook.errors import StartError

CLOCK_SKEW = timedelta(hours=1)
"""A certificate is valid so long before it was made: the API server's clock may be behind."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def issue_authority(*, now: datetime, days: int) -> Pair:
    """A CA; each has a subject of its own, so that two in one bundle are told apart."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"nvshare-webhook CA {now:%Y%m%dT%H%M%S%f}")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(key, now=now, days=days)
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def issue_leaf(authority: Pair, hosts: tuple[str, ...], *, now: datetime, days: int) -> Pair:
    """A serving certificate for these DNS names and addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(key, now=now, days=days)
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])]))
        .issuer_name(authority.certificate.subject)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
    )
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(key: ec.EllipticCurvePrivateKey, *, now: datetime, days: int) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def write_set(folder: Path, hosts: tuple[str, ...], *, days: int) -> None:
    """A fresh `ca.crt`, `tls.crt` and `tls.key` in the folder; the CA's key is not kept."""
    now = datetime.now(UTC)
    authority = issue_authority(now=now, days=days)
    leaf = issue_leaf(authority, hosts, now=now, days=days)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ca.crt").write_bytes(authority.certificate_pem)
        (folder / "tls.crt").write_bytes(leaf.certificate_pem)
        key_file = folder / "tls.key"
        key_file.touch(mode=0o600)
        key_file.write_bytes(leaf.key_pem)
    except OSError as error:
        raise StartError(f"the certificates cannot be written to {folder} ({error}). Name another --out.") from None


def expiry_of(pem: bytes) -> datetime:
    """When the first certificate in the text ends."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc
