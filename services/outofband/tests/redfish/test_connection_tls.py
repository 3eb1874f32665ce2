"""Sessions, deadlines and answers of one connection over TLS."""

import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509

from joulie_devcluster.control_plane.pki import Authority
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.redfish.connection import MOST_BYTES
from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.resources import SESSIONS, SYSTEM


async def failure(call):
    with pytest.raises(BmcError) as caught:
        await call
    assert "calvin" not in str(caught.value)
    return caught.value.reason


async def test_a_session_is_made_once_and_deleted_at_the_end(serve, connect):
    served = await serve()
    connection = connect(served)
    for _ in range(3):
        await connection.get(SYSTEM)
    assert (len(served.bmc.sessions), served.bmc.requests.count(("POST", SESSIONS))) == (1, 1)
    await connection.close()
    assert served.bmc.sessions == {}


async def test_a_session_that_the_bmc_has_ended_is_made_again(serve, connect):
    served = await serve()
    connection = connect(served)
    await connection.get(SYSTEM)
    served.bmc.sessions.clear()
    assert (await connection.get(SYSTEM)).body["PowerState"] == "On"
    await connection.close()
    assert served.bmc.sessions == {}


async def test_without_a_free_session_each_request_has_the_credentials(serve, connect):
    served = await serve(replace(PROFILES["plain"], max_sessions=0))
    connection = connect(served)
    assert (await connection.get(SYSTEM)).body["PowerState"] == "On"
    await connection.close()
    assert not any(method == "DELETE" for method, _ in served.bmc.requests)


async def test_wrong_credentials_are_refused(serve, connect):
    assert await failure(connect(await serve(), password="x").get(SYSTEM)) is BmcReason.UNAUTHORIZED


async def test_a_certificate_of_another_authority_is_refused(serve, connect, tmp_path):
    served = await serve()
    other, _ = Authority.create("other").pair.write(tmp_path, "other")
    connection = connect(served, ca=other)
    with pytest.raises(BmcError, match=r"key ca\.crt of the Secret") as caught:
        await connection.get(SYSTEM)
    assert caught.value.reason is BmcReason.CERTIFICATE_REFUSED
    assert served.bmc.requests == []


async def test_a_certificate_without_the_address_is_accepted_by_its_own_name_only(connect, tmp_path):
    async with elsewhere(lambda: web.json_response({"a": 1}), tmp_path, names=["idrac-7xk2"]) as there:
        # By its IP address, and by another name.
        for connection in (connect(there), connect(there, server_name="idrac-other")):
            with pytest.raises(BmcError, match=r"key tls-server-name of the Secret") as caught:
                await connection.get(SYSTEM)
            assert caught.value.reason is BmcReason.CERTIFICATE_REFUSED
            assert there.requests == []
        assert (await connect(there, server_name="idrac-7xk2").get(SYSTEM)).body == {"a": 1}


async def test_the_name_of_a_certificate_does_not_make_another_authority_trusted(connect, tmp_path):
    other, _ = Authority.create("other").pair.write(tmp_path, "other")
    async with elsewhere(lambda: web.json_response({}), tmp_path, names=["idrac-7xk2"]) as there:
        assert await failure(connect(there, ca=other, server_name="idrac-7xk2").get(SYSTEM)) is (
            BmcReason.CERTIFICATE_REFUSED
        )
        assert there.requests == []


@pytest.mark.parametrize(
    ("days", "why"), [((2, 9), "not yet valid"), ((-9, -2), "has expired")], ids=["future", "past"]
)
async def test_a_certificate_of_another_time_names_the_clocks(connect, tmp_path, monkeypatch, days, why):
    build = x509.CertificateBuilder.sign
    now = datetime.now(UTC)

    def dated(builder, *args, **how):
        start, end = (now + timedelta(days=each) for each in days)
        builder._not_valid_before = builder._not_valid_after = None
        return build(builder.not_valid_before(start).not_valid_after(end), *args, **how)

    monkeypatch.setattr(x509.CertificateBuilder, "sign", dated)
    async with elsewhere(lambda: web.json_response({}), tmp_path) as there:
        with pytest.raises(BmcError, match=f"{why}: compare the clocks") as caught:
            await connect(there).get(SYSTEM)
    assert caught.value.reason is BmcReason.CERTIFICATE_REFUSED


async def test_an_answer_that_does_not_come_ends_at_the_deadline(serve, connect):
    served = await serve(replace(PROFILES["plain"], latency_s=30))
    assert await failure(connect(served, timeout_s=0.2).get(SYSTEM)) is BmcReason.TIMED_OUT


async def test_a_link_to_another_host_is_not_followed(serve, connect):
    served = await serve()
    for link in ("https://example.org/redfish/v1/Systems/1", "//example.org/redfish/v1", "/etc/passwd"):
        assert await failure(connect(served).get(link)) is BmcReason.MALFORMED


@dataclass
class Elsewhere:
    """Something that is not a BMC, at the address of one."""

    address: str
    ca: Path
    requests: list


@asynccontextmanager
async def elsewhere(answer, directory, *, names=("127.0.0.1",)):
    requests = []

    async def handle(request):
        requests.append((request.method, request.path))
        return answer()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    authority = Authority.create("elsewhere")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*authority.issue_server("bmc", names).write(directory, "bmc"))
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        yield Elsewhere(
            f"https://127.0.0.1:{runner.addresses[0][1]}", authority.pair.write(directory, "ca")[0], requests
        )
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda: web.Response(text="<html>"), BmcReason.MALFORMED),
        (lambda: web.json_response([]), BmcReason.MALFORMED),
        (lambda: web.Response(body=b" " * (MOST_BYTES + 1)), BmcReason.MALFORMED),
        (lambda: web.Response(status=302, headers={"Location": "https://example.org/redfish/v1"}), BmcReason.REFUSED),
        (lambda: web.Response(status=501), BmcReason.REFUSED),
        (lambda: web.Response(status=503, text="<html>"), BmcReason.BUSY),
        (lambda: web.Response(status=409), BmcReason.BUSY),
        (lambda: web.Response(status=500), BmcReason.FAILED),
    ],
    ids=["page", "list", "large", "redirect", "not implemented", "busy", "conflict", "error"],
)
async def test_an_answer_that_is_no_resource_is_an_error(connect, tmp_path, answer, reason):
    async with elsewhere(answer, tmp_path) as there:
        assert await failure(connect(there).get(SYSTEM)) is reason


@pytest.mark.parametrize(
    ("value", "expected_s"), [("120", 120.0), ("0", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-5", None)]
)
async def test_a_busy_bmc_says_when_to_try_again(connect, tmp_path, value, expected_s):
    async with elsewhere(lambda: web.Response(status=503, headers={"Retry-After": value}), tmp_path) as there:
        with pytest.raises(BmcError) as caught:
            await connect(there).get(SYSTEM)
    assert caught.value.retry_after_s == expected_s
