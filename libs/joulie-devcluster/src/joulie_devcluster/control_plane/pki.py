"""Certificates of a cluster: authorities, client and serving certificates.

All keys are elliptic-curve keys, which take milliseconds to generate. Certificates are valid for a year, longer than a
development cluster exists. Private keys are written with mode 0600.
"""

import datetime as dt
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=365)
# A clock that is slightly behind (in a virtual machine just resumed) must not reject a new certificate.
_BACKDATED = dt.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both in PEM."""

    cert_pem: bytes
    key_pem: bytes

    def write(self, directory: Path, stem: str) -> tuple[Path, Path]:
        """Write `stem`.crt and `stem`.key with mode 0600 and return their paths."""
        return write_file(directory / f"{stem}.crt", self.cert_pem), write_file(directory / f"{stem}.key", self.key_pem)


class Authority:
    """A self-signed certificate authority."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, common_name: str) -> Self:
        """Create an authority with a new key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(common_name, ())
        builder = _builder(subject, subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @property
    def pair(self) -> KeyPair:
        """Certificate and key of the authority."""
        return KeyPair(_cert_pem(self._certificate), key_pem(self._key))

    def issue_client(self, common_name: str, organizations: Sequence[str] = ()) -> KeyPair:
        """Issue a client certificate. Kubernetes uses the common name as user and the organizations as groups."""
        return self._issue(_name(common_name, organizations), (), (ExtendedKeyUsageOID.CLIENT_AUTH,))

    def issue_server(self, common_name: str, hosts: Sequence[str]) -> KeyPair:
        """Issue a serving certificate for IP addresses and DNS names.

        It is also valid for clients, which etcd requires of its peers.
        """
        usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        return self._issue(_name(common_name, ()), hosts, usages)

    def _issue(self, subject: x509.Name, hosts: Sequence[str], usages: Sequence[x509.ObjectIdentifier]) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._certificate.subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer_key, critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return KeyPair(_cert_pem(builder.sign(self._key, hashes.SHA256())), key_pem(key))


def create_signing_key() -> tuple[bytes, bytes]:
    """Return a new key pair for service-account tokens: private and public key, both in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return key_pem(key), public


def write_file(path: Path, content: bytes) -> Path:
    """Write a file with mode 0600 atomically and return its path. Readers see the old or the new content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    return temporary.replace(path)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PKCS #8 PEM without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _cert_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
