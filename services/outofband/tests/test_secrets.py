"""Credentials are returned for approved addresses and certificates only."""

import json

import pytest
from services.outofband.tests.conftest import secret

from joulie_api.errors import NotFound
from joulie_api.resources import SECRETS
from joulie_core.kinds import NodeBMCSpec
from joulie_devcluster.control_plane.pki import Authority
from joulie_outofband.endpoint import parse_endpoint
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.secrets import read_access, read_credentials

ADDRESS = "https://10.0.0.17"
PLAIN = {"username": "root", "password": "calvin", "addresses": ADDRESS}


class Secrets:
    """The API server's Secrets; records what is read."""

    def __init__(self, **entries):
        self.raw = json.dumps(secret("bmc", **entries)).encode()
        self.read = []

    async def get(self, res, name, namespace=None):
        self.read.append((res, name, namespace))
        if isinstance(self.raw, Exception):
            raise self.raw
        return self.raw


def spec(address=ADDRESS, **fields):
    reached = {"protocol": address.partition(":")[0].replace("https", "redfish"), "address": address}
    named = {"nodeName": "n1", "credentialsSecretRef": {"name": "bmc"}}
    return NodeBMCSpec.model_validate(named | reached | fields)


async def access(secrets, address=ADDRESS, **fields):
    return await read_access(secrets, spec(address, **fields), parse_endpoint(address), "joulie-system")


async def refusal(call):
    with pytest.raises(BmcError) as caught:
        await call
    assert "calvin" not in str(caught.value)
    return caught.value.reason, str(caught.value)


@pytest.fixture(scope="module")
def certificate():
    return Authority.create("bmc").pair.cert_pem.decode()


async def test_user_and_password_are_read_from_the_namespace_of_the_service():
    secrets = Secrets(**PLAIN)
    found = await access(secrets)
    assert (found.username, found.password) == ("root", "calvin")
    assert secrets.read == [(SECRETS, "bmc", "joulie-system")]
    ipmi = Secrets(**PLAIN | {"addresses": "ipmi://10.0.0.0/24"})
    endpoint = parse_endpoint("ipmi://10.0.0.17")
    assert await read_credentials(ipmi, spec("ipmi://10.0.0.17"), endpoint, "x") == ("root", "calvin")
    assert ipmi.read == [(SECRETS, "bmc", "x")]


@pytest.mark.parametrize("addresses", [None, "", "https://10.0.0.18", "ipmi://10.0.0.17"])
async def test_an_address_that_the_secret_does_not_approve_gets_no_credentials_and_the_way_out_is_named(addresses):
    entries = PLAIN | {"addresses": addresses}
    reason, message = await refusal(access(Secrets(**{key: text for key, text in entries.items() if text is not None})))
    assert reason is BmcReason.ADDRESS_NOT_APPROVED
    assert "addresses of Secret bmc" in message
    assert ADDRESS in message


async def test_an_ipmi_address_needs_its_own_approval():
    endpoint = parse_endpoint("ipmi://10.0.0.17")
    reason, _ = await refusal(read_credentials(Secrets(**PLAIN), spec("ipmi://10.0.0.17"), endpoint, "joulie-system"))
    assert reason is BmcReason.ADDRESS_NOT_APPROVED


async def test_the_certificates_of_the_credentials_secret_are_the_only_ones(certificate):
    tls = (await access(Secrets(**PLAIN, ca_crt=certificate))).tls
    assert len(tls.get_ca_certs()) == 1
    # Another Secret that the NodeBMC names is not even read.
    secrets = Secrets(**PLAIN, ca_crt=certificate)
    assert len((await access(secrets, caSecretRef={"name": "other"})).tls.get_ca_certs()) == 1
    assert [name for _, name, _ in secrets.read] == ["bmc"]


async def test_certificates_that_only_the_nodebmc_names_are_not_approved():
    reason, message = await refusal(access(Secrets(**PLAIN), caSecretRef={"name": "bmc-ca"}))
    assert reason is BmcReason.CA_NOT_APPROVED
    assert "copy ca.crt of Secret bmc-ca into Secret bmc" in message


async def test_the_name_in_the_certificate_is_that_of_the_secret(certificate):
    assert (await access(Secrets(**PLAIN, ca_crt=certificate))).server_name is None
    named = Secrets(**PLAIN, ca_crt=certificate, **{"tls-server-name": "idrac-7xk2"})
    found = await access(named)
    assert (found.server_name, found.tls.check_hostname) == ("idrac-7xk2", True)


@pytest.mark.parametrize("name", ["", "10.0.0.17", "a b", "*.example.org", "x" * 300])
async def test_a_name_that_is_none_is_refused(name):
    secrets = Secrets(**PLAIN, **{"tls-server-name": name})
    expected = (BmcReason.CREDENTIALS_MISSING, "tls-server-name of Secret bmc is not a DNS name")
    assert await refusal(access(secrets)) == expected


async def test_without_certificates_the_public_ones_verify():
    tls = (await access(Secrets(**PLAIN))).tls
    assert tls.check_hostname
    assert len(tls.get_ca_certs()) != 1


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"username": None}, "Secret bmc has no readable username"),
        ({"password": None}, "Secret bmc has no readable password"),
        ({"username": "ro:ot"}, "colon"),
        ({"ca_crt": "no certificate"}, "ca.crt has no certificate in PEM"),
        ({"ca_crt": ""}, "ca.crt has no certificate in PEM"),
    ],
)
async def test_a_secret_that_lacks_something_is_named_with_what_it_lacks(change, names):
    entries = {key: text for key, text in (PLAIN | change).items() if text is not None}
    reason, message = await refusal(access(Secrets(**entries)))
    assert reason is BmcReason.CREDENTIALS_MISSING
    assert names in message


@pytest.mark.parametrize("value", ["%%%", "/w==", "\u00fc"])
async def test_an_entry_that_is_not_text_is_named(value):
    secrets = Secrets(**PLAIN)
    body = json.loads(secrets.raw)
    body["data"]["password"] = value
    secrets.raw = json.dumps(body).encode()
    assert await refusal(access(secrets)) == (BmcReason.CREDENTIALS_MISSING, "Secret bmc has no readable password")


@pytest.mark.parametrize("answer", [NotFound(404, "", "calvin"), b"[]", b'{"data": {"a": "\xff calvin"}}', b"[" * 9000])
async def test_a_secret_that_cannot_be_read_is_named_without_what_it_has(answer):
    secrets = Secrets(**PLAIN)
    secrets.raw = answer
    reason, message = await refusal(access(secrets))
    assert reason is BmcReason.CREDENTIALS_MISSING
    assert message.startswith("Secret bmc: ")


async def test_a_nodebmc_without_a_secret_is_refused():
    bare = spec().model_copy(update={"credentials_secret_ref": None})
    reason, message = await refusal(read_access(Secrets(**PLAIN), bare, parse_endpoint(ADDRESS), "x"))
    assert (reason, message) == (BmcReason.CREDENTIALS_MISSING, "spec.credentialsSecretRef is missing")
