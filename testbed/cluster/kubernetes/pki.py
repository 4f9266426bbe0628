"""Certificates of a test cluster: one CA, and the pairs that it signs.

The rule: an identity is a certificate (name and groups), made when it is needed, so that a test can be any user.  Keys
lie in the run's folder and are removed with it.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=7)
_CLOCK_SLACK = datetime.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """A CA in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject("nvshare-guard test CA", ())
        unsigned = _unsigned(self._name, self._name, self._key.public_key())
        unsigned = unsigned.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.pair = self._write("ca", unsigned.sign(self._key, hashes.SHA256()), self._key)

    @property
    def certificate(self) -> Path:
        return self.pair.certificate

    def vouch_for(self, name: str, *, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Pair:
        """Return a pair for a client (its groups), a server (its hosts), or both; one pair a name."""
        known = self._files(name)
        if known.certificate.exists():
            return known
        key = ec.generate_private_key(ec.SECP256R1())
        unsigned = _unsigned(_subject(name, groups), self._name, key.public_key())
        usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        unsigned = unsigned.add_extension(usages, critical=False)
        if hosts:
            unsigned = unsigned.add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
        return self._write(name, unsigned.sign(self._key, hashes.SHA256()), key)

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
        pair = self._files(name)
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(_pem(key))
        return pair

    def _files(self, name: str) -> Pair:
        stem = name.replace(":", "-").replace("/", "-")
        return Pair(self._folder / f"{stem}.crt", self._folder / f"{stem}.key")


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def _subject(name: str, groups: Sequence[str]) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _unsigned(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return x509.CertificateBuilder(
        issuer_name=issuer,
        subject_name=subject,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _CLOCK_SLACK,
        not_valid_after=now + _LIFETIME,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
