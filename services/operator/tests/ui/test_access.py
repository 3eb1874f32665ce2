"""Which requests are refused."""

import pytest

from joulie_operator.ui.access import SECURITY_HEADERS, refusal_of


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8083",
        "LOCALHOST:1",
        "127.0.0.1:8083",
        "10.0.0.7",
        "[::1]:8083",
        "[fe80::1]",
        "page.x:80",
    ],
)
def test_addresses_localhost_and_configured_names_are_answered(host):
    assert refusal_of({"Host": host}, {"page.x"}) is None


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:8083", "localhost.evil.example", "127.0.0.1.nip.io"]
)
def test_other_names_are_refused_since_they_may_be_pointed_here(host):
    assert "unknown host name" in refusal_of({"Host": host}, {"page.x"})


def test_a_request_without_a_host_is_refused():
    assert refusal_of({}, ()) is not None


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost:8083", True),
        ("https://localhost:8083", True),
        ("http://localhost:8084", False),
        ("http://evil.example", False),
        ("null", False),
    ],
)
def test_only_the_own_origin_is_answered(origin, allowed):
    assert (refusal_of({"Host": "localhost:8083", "Origin": origin}, ()) is None) is allowed


@pytest.mark.parametrize(
    ("site", "mode", "dest", "allowed"),
    [
        ("same-origin", "cors", "empty", True),
        ("none", "navigate", "document", True),
        ("cross-site", "navigate", "document", True),
        ("cross-site", "navigate", "iframe", False),
        ("cross-site", "no-cors", "script", False),
        ("same-site", "cors", "empty", False),
    ],
)
def test_other_sites_may_link_to_the_page_and_not_read_it(site, mode, dest, allowed):
    headers = {"Host": "localhost", "Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    assert (refusal_of(headers, ()) is None) is allowed


def test_the_policy_allows_no_inline_script_style_or_other_host():
    directives = dict(
        part.strip().split(" ", 1) for part in SECURITY_HEADERS["Content-Security-Policy"].split(";") if part.strip()
    )
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == directives["style-src"] == directives["connect-src"] == "'self'"
    assert directives["require-trusted-types-for"] == "'script'"
    assert directives["frame-ancestors"] == "'none'"
