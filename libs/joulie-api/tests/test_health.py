import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from joulie_api.health import Health


@pytest.fixture
def health():
    return Health()


@pytest.fixture
async def fetch(health):
    app = web.Application()
    app.add_routes(health.routes())
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as session:

        async def get(path):
            async with session.get(path) as response:
                return response.status, await response.text()

        yield get
    await runner.cleanup()


async def test_a_process_without_checks_is_alive_and_ready(fetch):
    assert await fetch("/healthz") == (200, "healthz check passed\n")
    assert await fetch("/readyz") == (200, "readyz check passed\n")


async def test_every_check_is_listed_with_its_reason(health, fetch):
    health.add_ready("nodes synced", lambda: None)
    health.add_ready("leader", lambda: "the lease is held by op-2")
    assert await fetch("/readyz") == (
        503,
        "[+]nodes synced ok\n[-]leader failed: the lease is held by op-2\nreadyz check failed\n",
    )
    assert (await fetch("/healthz"))[0] == 200


async def test_one_check_can_be_requested(health, fetch):
    health.add_ready("a", lambda: None)
    health.add_ready("b", lambda: "no")
    assert await fetch("/readyz/a") == (200, "[+]a ok\nreadyz/a check passed\n")
    assert (await fetch("/readyz/b"))[0] == 503


async def test_an_unknown_check_is_404_and_the_known_ones_are_named(health, fetch):
    health.add_live("loop", lambda: None)
    assert await fetch("/healthz/lop") == (404, "no check lop; checks: loop\n")


async def test_a_check_that_raises_has_failed(health, fetch):
    def check():
        raise KeyError("table")

    health.add_live("table", check)
    assert await fetch("/healthz") == (503, "[-]table failed: KeyError: 'table'\nhealthz check failed\n")


def test_a_name_is_given_once(health):
    health.add_ready("a", lambda: None)
    health.add_live("a", lambda: None)
    with pytest.raises(ValueError, match="named a"):
        health.add_ready("a", lambda: None)


def test_a_change_of_readiness_is_logged_once(health):
    reasons = {"nodes": "not synced", "pods": None}
    health.add_ready("nodes", lambda: reasons["nodes"])
    health.add_ready("pods", lambda: reasons["pods"])
    with capture_logs() as logs:
        health.readiness()
        reasons["nodes"] = "not synced for 2 s"
        health.readiness()
        reasons["pods"] = "forbidden"
        health.readiness()
        reasons.update(nodes=None, pods=None)
        health.readiness()
        health.readiness()
    assert [(log["event"], log.get("cause"), log.get("problem")) for log in logs] == [
        ("not ready", "nodes", "nodes: not synced"),
        ("not ready", "nodes, pods", "nodes: not synced for 2 s; pods: forbidden"),
        ("ready", None, None),
    ]
