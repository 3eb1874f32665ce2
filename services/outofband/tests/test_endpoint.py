"""Addresses as users write them, and which of them a Secret approves."""

import pytest

from joulie_outofband.endpoint import Endpoint, is_approved, parse_endpoint
from joulie_outofband.reasons import BmcError, BmcReason


@pytest.mark.parametrize(
    ("address", "endpoint", "text"),
    [
        ("https://10.0.0.17", Endpoint("https", "10.0.0.17", None), "https://10.0.0.17"),
        ("https://BMC-17.Example.org:8443", Endpoint("https", "bmc-17.example.org", 8443), None),
        ("https://[FD00::0017]:65535", Endpoint("https", "fd00::17", 65535), "https://[fd00::17]:65535"),
        ("https://[fd00::17]", Endpoint("https", "fd00::17", None), "https://[fd00::17]"),
        ("ipmi://bmc_17:1", Endpoint("ipmi", "bmc_17", 1), "ipmi://bmc_17:1"),
        ("wol://10.0.0.255", Endpoint("wol", "10.0.0.255", None), "wol://10.0.0.255"),
        ("https://" + "a" * 63, Endpoint("https", "a" * 63, None), "https://" + "a" * 63),
        ("https://1a.b2", Endpoint("https", "1a.b2", None), "https://1a.b2"),
    ],
)
def test_an_address_is_a_scheme_a_host_and_maybe_a_port(address, endpoint, text):
    assert parse_endpoint(address) == endpoint
    assert str(endpoint) == (text or address.lower())


@pytest.mark.parametrize(
    "address",
    [
        "wol://h:abc",
        "https://h:99999",
        "https://h:65536",
        "https://h:0",
        "https://h:",
        "https://h:\N{ARABIC-INDIC DIGIT ONE}",
        "https://:443",
        "https://h\x00",
        "https://" + "a" * 64,
        "https://" + ".".join(["a" * 50] * 6),
        "https://fd00::17",
        "https://[10.0.0.17]",
        "https://[bmc]",
        "https://[fd00::17%eth0]",
        "https://127.1",
        "https://2130706433",
        "https://0x7f000001",
        "https://bmc..example",
        "https://-bmc",
        "https://bmc-",
        "https://bücher",
        "https://good.example\\@evil.example",
        "https://a.example\nb",
        "https://user@bmc",
        "https://bmc/redfish",
        "http://bmc",
        "bmc",
        "",
    ],
)
def test_anything_else_is_no_address_and_the_message_says_what_is(address):
    with pytest.raises(BmcError, match="host name or an IP address") as caught:
        parse_endpoint(address)
    assert caught.value.reason is BmcReason.INVALID_ADDRESS
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("address", ["wol://[fd00::17]", "ipmi://[fd00::17]"])
def test_ipmi_and_wake_on_lan_have_no_ipv6(address):
    with pytest.raises(BmcError, match="IPv4 only") as caught:
        parse_endpoint(address)
    assert caught.value.reason is BmcReason.INVALID_ADDRESS


@pytest.mark.parametrize(
    ("approved", "address"),
    [
        ("https://10.0.0.17", "https://10.0.0.17"),
        ("https://10.0.0.16 \n https://10.0.0.17", "https://10.0.0.17"),
        ("https://10.0.0.17", "https://10.0.0.17:8443"),
        ("https://10.0.0.17:8443", "https://10.0.0.17:8443"),
        ("https://10.0.0.0/24", "https://10.0.0.255:8443"),
        ("https://fd00::/64", "https://[fd00::17]"),
        ("https://[fd00::0017]", "https://[fd00::17]"),
        ("https://BMC-17.example.org", "https://bmc-17.EXAMPLE.org"),
        ("https://*.bmc.example.org", "https://a.b.bmc.example.org"),
        ("https://*.bmc.example.org:8443", "https://a.bmc.example.org:8443"),
        ("ipmi://10.0.0.0/8", "ipmi://10.1.2.3"),
    ],
)
def test_an_address_network_or_suffix_of_the_list_is_approved(approved, address):
    assert is_approved(parse_endpoint(address), approved)


@pytest.mark.parametrize(
    ("approved", "address"),
    [
        ("", "https://10.0.0.17"),
        ("https://10.0.0.16", "https://10.0.0.17"),
        ("10.0.0.17", "https://10.0.0.17"),
        ("https://10.0.0.17", "ipmi://10.0.0.17"),
        ("ipmi://10.0.0.0/24", "https://10.0.0.17"),
        ("https://10.0.0.17:8443", "https://10.0.0.17"),
        ("https://10.0.0.17:8443", "https://10.0.0.17:443"),
        ("https://10.0.0.0/24", "https://10.0.1.0"),
        ("https://10.0.0.1/24", "https://10.0.0.1"),
        ("https://10.0.0.0/24", "https://10.0.0.evil"),
        ("https://10.0.0.0/33", "https://10.0.0.0"),
        ("https://*.bmc.example.org", "https://bmc.example.org"),
        ("https://*.bmc.example.org", "https://evilbmc.example.org"),
        ("https://*.0.17", "https://10.0.0.17"),
        ("https://*.bmc.example.org:8443", "https://a.bmc.example.org"),
        ("https://*", "https://bmc"),
        ("https://*.", "https://bmc.example"),
        ("*", "https://bmc"),
        ("https://", "https://bmc"),
    ],
)
def test_what_is_not_named_is_not_approved(approved, address):
    assert not is_approved(parse_endpoint(address), approved)
