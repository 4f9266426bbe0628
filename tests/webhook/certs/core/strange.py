"""Certificates and keys that are well formed and that nobody can use: what a corrupt Secret may hold."""

import base64
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from webhook.certs.core.issue import Pair

_P256 = bytes.fromhex("06082a8648ce3d030107")
_NO_CURVE = bytes.fromhex("06082a8648ce3d03017f")
_NAMES_OF_NO_KIND = bytes.fromhex("3004a5023000")
"""A subjectAltName that holds one EDIPartyName."""


def on_no_curve(pem: bytes) -> bytes:
    """Return the same certificate or key, on a curve that does not exist."""
    opening, *content, closing = pem.decode().splitlines()
    der = base64.b64decode("".join(content))
    assert _P256 in der
    return "\n".join((opening, base64.b64encode(der.replace(_P256, _NO_CURVE)).decode(), closing, "")).encode()


def with_strange_names(*, now: datetime) -> Pair:
    """Make a certificate whose names are of a kind that no program reads."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=9))
        .add_extension(x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, _NAMES_OF_NO_KIND), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return Pair(
        certificate.public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
