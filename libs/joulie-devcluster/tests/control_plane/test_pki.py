"""Certificates: issuers, subjects, usages, and file modes of the keys."""

import stat

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from joulie_devcluster.control_plane.components import Layout, write_pki
from joulie_devcluster.control_plane.pki import Authority, create_signing_key, write_file


def certificate(pair):
    return x509.load_pem_x509_certificate(pair.cert_pem)


def names(cert, oid):
    return [attribute.value for attribute in cert.subject.get_attributes_for_oid(oid)]


def usages(cert):
    return set(cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_a_client_certificate_contains_user_and_groups_and_is_signed_by_its_authority():
    authority = Authority.create("ca")
    cert = certificate(authority.issue_client("kubernetes-admin", ("system:masters", "devs")))
    cert.verify_directly_issued_by(certificate(authority.pair))
    assert names(cert, NameOID.COMMON_NAME) == ["kubernetes-admin"]
    assert names(cert, NameOID.ORGANIZATION_NAME) == ["system:masters", "devs"]
    assert usages(cert) == {ExtendedKeyUsageOID.CLIENT_AUTH}


def test_a_serving_certificate_contains_addresses_and_names():
    cert = certificate(Authority.create("ca").issue_server("apiserver", ("127.0.0.1", "localhost")))
    hosts = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in hosts.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert hosts.get_values_for_type(x509.DNSName) == ["localhost"]
    assert ExtendedKeyUsageOID.SERVER_AUTH in usages(cert)


def test_a_certificate_is_not_valid_for_another_authority():
    one, other = Authority.create("ca"), Authority.create("ca")
    with pytest.raises(InvalidSignature):
        certificate(one.issue_client("me")).verify_directly_issued_by(certificate(other.pair))


def test_only_the_certificate_of_an_authority_can_sign():
    authority = Authority.create("ca")
    constraints = x509.BasicConstraints
    assert certificate(authority.pair).extensions.get_extension_for_class(constraints).value.ca
    leaf = certificate(authority.issue_client("me"))
    assert not leaf.extensions.get_extension_for_class(constraints).value.ca


def test_private_and_public_signing_key_match():
    private, public = create_signing_key()
    key = serialization.load_pem_private_key(private, password=None)
    assert serialization.load_pem_public_key(public) == key.public_key()


def test_files_are_readable_by_their_owner_only_even_if_they_existed_before(tmp_path):
    path = tmp_path / "a.key"
    path.write_text("old")
    path.chmod(0o644)
    write_file(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b"new"


def test_the_keys_of_a_cluster_are_private_and_its_authorities_separate(tmp_path):
    layout = Layout(tmp_path)
    credentials = write_pki(layout)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in layout.pki.iterdir()}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(layout.pki.stat().st_mode) == 0o700
    authorities = {(layout.pki / f"{name}.crt").read_bytes() for name in ("ca", "front-proxy-ca", "etcd-ca")}
    assert len(authorities) == 3
    etcd_ca = x509.load_pem_x509_certificate((layout.pki / "etcd-ca.crt").read_bytes())
    with pytest.raises(ValueError, match="issuer"):
        certificate(credentials.clients["admin"]).verify_directly_issued_by(etcd_ca)
