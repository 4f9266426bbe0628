"""The content of the Secret: CA, serving certificate, the next of each, the CAs on their way out, and the phase.

It owns the codec between the data of a Secret and values.  A part that cannot be used is left out and named as a
fault, so that `phases` sees usable parts only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from webhook.certs.core.issue import Pair

_UNUSABLE = (
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""The errors of `cryptography` for parts that we cannot use; they have no common base."""

Bundle = frozenset[bytes]
"""A set of trusted CAs, each as DER."""


class Phase(StrEnum):
    """The phase of a change; `phases.py` says what each phase waits for."""

    SETTLED = "settled"
    PUBLISH = "publish"
    TRUST = "trust"
    SERVE = "serve"
    LINGER = "linger"
    RETIRE = "retire"


@dataclass(frozen=True, slots=True)
class Material:
    """The usable parts of a Secret."""

    authority: Pair | None = None
    """The CA that signed `serving`."""
    serving: Pair | None = None
    """The certificate that the replicas must serve."""
    next_authority: Pair | None = None
    next_serving: Pair | None = None
    previous: tuple[bytes, ...] = ()
    """CAs (PEM, no keys) that stay trusted until the change is through."""
    phase: Phase = Phase.SETTLED
    since: datetime | None = None
    """The begin of the phase; None where it is not known: then the wait starts again."""

    def trusted(self) -> Bundle:
        """Return the CAs that must be trusted in this phase: those of every certificate that a replica may serve."""
        leaving = () if self.phase in _OLD_ONLY else self.previous
        pairs = [pair.certificate for pair in (self.authority, self.next_authority) if pair is not None]
        return Bundle().union(*(read_bundle(pem) for pem in (*pairs, *leaving)))

    def at(self, phase: Phase, now: datetime) -> "Material":
        """Return the same parts in another phase."""
        return replace(self, phase=phase, since=now)


_OLD_ONLY = (Phase.SETTLED, Phase.RETIRE)
_NEXT_PHASES = (Phase.PUBLISH, Phase.TRUST)
_PARTS = (("authority", "ca"), ("serving", "tls"), ("next_authority", "next-ca"), ("next_serving", "next-tls"))


def write(material: Material) -> dict[str, bytes]:
    """Return the data of the Secret."""
    data: dict[str, bytes] = {"phase": material.phase.encode()}
    if material.since is not None:
        data["since"] = material.since.astimezone(UTC).isoformat().encode()
    for attribute, key in _PARTS:
        pair = getattr(material, attribute)
        if pair is not None:
            data |= {f"{key}.crt": pair.certificate, f"{key}.key": pair.key}
    if material.previous:
        data["previous-ca.crt"] = b"".join(material.previous)
    return data


def read(data: Mapping[str, bytes], server_names: Sequence[str], *, now: datetime) -> tuple[Material, tuple[str, ...]]:
    """Return the usable parts of the Secret's data, and a sentence for each part that is not usable."""
    faults: list[str] = []
    authority = _authority(data, "ca", faults)
    next_authority = _authority(data, "next-ca", faults)
    material = Material(
        authority=authority,
        serving=_leaf(data, "tls", authority, server_names, faults),
        next_authority=next_authority,
        next_serving=_leaf(data, "next-tls", next_authority, server_names, faults),
        previous=tuple(to_pem(der) for der in sorted(read_bundle(data.get("previous-ca.crt", b"")))),
        phase=_phase(data, faults),
        since=_since(data, now),
    )
    return _consistent(material, faults), tuple(faults)


def _consistent(material: Material, faults: list[str]) -> Material:
    has_next = material.next_authority is not None and material.next_serving is not None
    if material.phase in _NEXT_PHASES and has_next:
        return material
    if material.phase in _NEXT_PHASES:
        faults.append(f"phase {material.phase} without a usable next CA and certificate")
        phase = Phase.SERVE if material.previous else Phase.SETTLED
        material = replace(material, phase=phase, since=None)
    return replace(material, next_authority=None, next_serving=None)


def _authority(data: Mapping[str, bytes], key: str, faults: list[str]) -> Pair | None:
    loaded = _pair(data, key, faults)
    if loaded is None:
        return None
    pair, certificate = loaded
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except _UNUSABLE:
        is_authority = False
    if not is_authority:
        faults.append(f"{key}.crt is not a CA's certificate")
        return None
    return pair


def _leaf(
    data: Mapping[str, bytes], key: str, authority: Pair | None, server_names: Sequence[str], faults: list[str]
) -> Pair | None:
    loaded = _pair(data, key, faults)
    if loaded is None:
        return None
    pair, certificate = loaded
    fault = _leaf_fault(certificate, authority, server_names)
    if fault:
        faults.append(f"{key}.crt {fault}")
        return None
    return pair


def _leaf_fault(certificate: x509.Certificate, authority: Pair | None, server_names: Sequence[str]) -> str | None:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        carried = names.get_values_for_type(x509.DNSName)
    except _UNUSABLE:
        carried = []
    if server_names[0] not in carried:
        return f"does not carry the name {server_names[0]}"
    if authority is None:
        return None
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
    except _UNUSABLE:
        return "was not signed by the CA beside it"
    return None


def _pair(data: Mapping[str, bytes], key: str, faults: list[str]) -> tuple[Pair, x509.Certificate] | None:
    certificate, private = data.get(f"{key}.crt"), data.get(f"{key}.key")
    if certificate is None and private is None:
        return None
    try:
        loaded = x509.load_pem_x509_certificate(certificate or b"")
        signer = serialization.load_pem_private_key(private or b"", None)
        belongs = isinstance(signer, ec.EllipticCurvePrivateKey) and signer.public_key() == loaded.public_key()
    except _UNUSABLE:
        faults.append(f"{key}.crt and {key}.key are not a certificate and a private key in PEM that we can use")
        return None
    if not belongs:
        faults.append(f"{key}.key is not the EC key of {key}.crt")
        return None
    return Pair(certificate or b"", private or b""), loaded


def _phase(data: Mapping[str, bytes], faults: list[str]) -> Phase:
    text = data.get("phase", b"").decode(errors="replace")
    try:
        return Phase(text)
    except ValueError:
        guessed = _guess_phase(data)
        faults.append(f"phase {text!r} is not one of {', '.join(Phase)}; the parts say {guessed}")
        return guessed


def _guess_phase(data: Mapping[str, bytes]) -> Phase:
    if "next-ca.crt" in data:
        return Phase.PUBLISH
    return Phase.SERVE if "previous-ca.crt" in data else Phase.SETTLED


def _since(data: Mapping[str, bytes], now: datetime) -> datetime | None:
    try:
        moment = datetime.fromisoformat(data.get("since", b"").decode(errors="replace"))
    except ValueError:
        return None
    if moment.tzinfo is None or moment > now:
        return None  # a moment in the future, by another clock, would make a wait endless
    return moment


def read_bundle(pem: bytes) -> Bundle:
    """Return the certificates in a bundle; none where it cannot be read."""
    try:
        return frozenset(
            certificate.public_bytes(serialization.Encoding.DER) for certificate in x509.load_pem_x509_certificates(pem)
        )
    except _UNUSABLE:
        return frozenset()


def write_bundle(bundle: Bundle) -> bytes:
    """Return a bundle as PEM, always in the same order."""
    return b"".join(to_pem(der) for der in sorted(bundle))


def to_pem(der: bytes) -> bytes:
    """Return one certificate as PEM."""
    return x509.load_der_x509_certificate(der).public_bytes(serialization.Encoding.PEM)


def to_der(pem: bytes) -> bytes:
    """Return the first certificate of a PEM text as DER, as a TLS handshake shows it."""
    return x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)


def ends_at(certificate: bytes) -> datetime:
    """Return when a certificate (PEM) ends."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def is_current(certificate: bytes, now: datetime) -> bool:
    """Tell whether a certificate (PEM) is valid at `now`."""
    loaded = x509.load_pem_x509_certificate(certificate)
    return loaded.not_valid_before_utc <= now < loaded.not_valid_after_utc


def unexpired(bundle: Bundle, now: datetime) -> tuple[bytes, ...]:
    """Return the certificates of a bundle that are valid at `now`, as PEM."""
    return tuple(pem for pem in (to_pem(der) for der in sorted(bundle)) if is_current(pem, now))
