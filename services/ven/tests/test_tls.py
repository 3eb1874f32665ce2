"""The whole VEN with a VTN behind TLS."""

import ssl

import pytest
from services.ven.tests.events import subscription
from services.ven.tests.vtn import Vtn

from joulie_devcluster.control_plane.pki import Authority


def served(directory, host):
    """Return a server's context with a certificate for that host, and the file that verifies it."""
    authority = Authority.create("utility")
    certificate, key = authority.issue_server("vtn", [host]).write(directory, "vtn")
    ca, _ = authority.pair.write(directory, "utility-ca")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    return tls, str(ca)


async def test_a_vtn_is_verified_by_the_configured_certificates(site, judge, tmp_path):
    tls, ca = served(tmp_path, "127.0.0.1")
    async with Vtn(judge, tls=tls) as vtn:
        vtn.put(**subscription(500))
        site.start(VTN_URL=vtn.url, VTN_CA_FILE=ca)
        await site.until(lambda: site.events)
        await site.kill()


@pytest.mark.parametrize(("host", "verified"), [("127.0.0.1", False), ("vtn.example.org", True)])
async def test_a_vtn_that_cannot_be_verified_gets_no_credentials(site, judge, tmp_path, host, verified):
    tls, ca = served(tmp_path, host)
    async with Vtn(judge, tls=tls) as vtn:
        vtn.put(**subscription(500))
        site.start(VTN_URL=vtn.url, **({"VTN_CA_FILE": ca} if verified else {}))
        await site.polls("NotTrusted", 1)
        assert (vtn.requests, site.events) == ([], [])
        await site.kill()
