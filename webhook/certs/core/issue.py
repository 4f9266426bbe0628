"""Make keys and certificates: a CA, and serving certificates under it.  All keys are EC P-256.

The rule it owns: every CA has a subject of its own, so that two CAs that are trusted at once are never confused.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLOCK_SKEW = timedelta(hours=1)
"""A node whose clock is behind by no more than this accepts a new certificate."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM.  The key is never shown."""

    certificate: bytes
    key: bytes = field(repr=False)


def new_authority(*, now: datetime, days: float) -> Pair:
    """Make a CA that signs serving certificates and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    subject = _name(f"nvshare-webhook CA {now:%Y-%m-%d} {serial & 0xFFFFFFFF:08x}")
    builder = (
        _builder(subject, subject, serial)
        .public_key(key.public_key())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def new_leaf(authority: Pair, server_names: Sequence[str], *, now: datetime, days: float) -> Pair:
    """Make a serving certificate under `authority`; it never outlives its CA."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)  # `secret` lets no other CA through
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_name(server_names[0]), issuer.subject, x509.random_serial_number())
        .public_key(key.public_key())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(min(now + timedelta(days=days), issuer.not_valid_after_utc))
        .add_extension(x509.SubjectAlternativeName([_host(name) for name in server_names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    return _pair(builder.sign(signer, hashes.SHA256()), key)


def _builder(subject: x509.Name, issuer: x509.Name, serial: int) -> x509.CertificateBuilder:
    return x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).serial_number(serial)


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        if not name:
            raise
        return x509.DNSName(name)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
