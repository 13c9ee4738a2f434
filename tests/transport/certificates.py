"""A certificate authority of our own, made on the spot. Its certificates have what Python 3.13 and newer demand of any
(`ssl.VERIFY_X509_STRICT`, RFC 5280): what a key may be used for, and whose key signed them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_SIGNS = {"key_cert_sign", "crl_sign"}
_SERVES = {"digital_signature"}
_USES = (
    "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign "
    "encipher_only decipher_only"
).split()


class Authority:
    """`trust` is its certificate; `server` gives a context that presents one signed by it, and leaves that in `served`."""

    def __init__(self, folder: Path) -> None:
        self._key = generate_private_key(SECP256R1())
        self._name = _common_name("authority of the tests")
        self.trust = folder / "authority.pem"
        self.served = folder / "server.pem"
        authority = _certificate(self._name, self._key, self._name, self._key, _SIGNS, days=2)
        self.trust.write_bytes(authority.public_bytes(Encoding.PEM))

    def server(self, *names: str, expired: bool = False, self_signed: bool = False) -> ssl.SSLContext:
        """For these names, written as a certificate has them: `DNS:api.example`, `IP:127.0.0.1`."""
        key, name = generate_private_key(SECP256R1()), _common_name("server")
        issuer, signer = (name, key) if self_signed else (self._name, self._key)
        certificate = _certificate(name, key, issuer, signer, _SERVES, days=-1 if expired else 2, names=names)
        both = self.served
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        both.write_bytes(private + certificate.public_bytes(Encoding.PEM))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(both)
        return context


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    name: x509.Name,
    key: EllipticCurvePrivateKey,
    issuer: x509.Name,
    signer: EllipticCurvePrivateKey,
    uses: set[str],
    *,
    days: int,
    names: tuple[str, ...] = (),
) -> x509.Certificate:
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(issuer, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=3))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=uses == _SIGNS, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**{use: use in uses for use in _USES}), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if names:
        made = made.add_extension(x509.SubjectAlternativeName([*map(_general_name, names)]), critical=False)
    return made.sign(signer, SHA256())


def _general_name(name: str) -> x509.GeneralName:
    kind, _, value = name.partition(":")
    return x509.IPAddress(ip_address(value)) if kind == "IP" else x509.DNSName(value)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))
