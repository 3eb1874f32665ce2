"""An API that a cluster has, lacks, or does not let be read."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs
from tests.e2e.waiting import eventually

from joulie_api import optional_watch
from joulie_api.optional_watch import OptionalWatch
from joulie_api.reflector import Reflector
from joulie_api.resources import RESOURCE_CLAIMS
from joulie_testing.api import Respond, dra_definitions, make_claim

TOLERANCE_S = 30.0


@asynccontextmanager
async def running(client):
    watch = OptionalWatch(client, "claims", Reflector(client, RESOURCE_CLAIMS, bytes))
    task = asyncio.create_task(watch.run())
    try:
        await asyncio.wait_for(watch.wait_settled(), 10)
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_objects_of_an_api_that_is_there_are_known_after_the_first_list(fake_api, fake_client):
    fake_api.put_all([*dra_definitions(), make_claim("one", "ml")])
    async with running(fake_client) as watch:
        assert (watch.absent, watch.is_unknown(TOLERANCE_S)) == (False, False)
        assert list(watch.reflectors[0].store) == ["ml/one"]


async def test_an_api_that_is_not_served_is_absent_and_not_unknown(fake_api, fake_client):
    async with running(fake_client) as watch:
        assert (watch.absent, watch.is_unknown(TOLERANCE_S)) == (True, False)
    assert not fake_api.watches()


async def test_an_api_that_cannot_be_asked_is_unknown(fake_api, fake_client, monkeypatch):
    monkeypatch.setattr(optional_watch, "SETTLE_S", 0.01)
    await fake_api.stop()
    async with running(fake_client) as watch:
        assert (watch.absent, watch.is_unknown(TOLERANCE_S)) == (False, True)


@pytest.mark.parametrize(("status", "event"), [(403, "access denied"), (404, "api not served")])
async def test_an_api_that_comes_later_is_found_and_its_absence_is_logged_once(
    fake_api, fake_client, monkeypatch, status, event
):
    monkeypatch.setattr(optional_watch, "RECHECK_S", 0.0)
    fake_api.put_all([*dra_definitions(), make_claim("one", "ml")])
    fake_api.faults.add(Respond(status), verb="list", path="/resourceclaims", times=3)
    with capture_logs() as logs:
        async with running(fake_client) as watch:
            await asyncio.wait_for(watch.reflectors[0].wait_synced(), 10)
            assert (watch.absent, watch.is_unknown(TOLERANCE_S)) == (False, False)
    assert [line["event"] for line in logs if "not watched" in line["event"]] == [f"claims not watched, {event}"]


@pytest.mark.parametrize("status", [403, 404])
async def test_a_denial_may_count_as_not_known(fake_api, fake_client, status):
    fake_api.put_all(dra_definitions())
    fake_api.faults.add(Respond(status), verb="list", path="/resourceclaims", times=None)
    reflector = Reflector(fake_client, RESOURCE_CLAIMS, bytes)
    watch = OptionalWatch(fake_client, "claims", reflector, denied_is_absent=False)
    with capture_logs() as logs:

        async def is_logged():
            return any("not watched" in line["event"] for line in logs)

        task = asyncio.create_task(watch.run())
        known = asyncio.create_task(watch.wait_known())
        await eventually(is_logged, within_s=30)
        if status == 404:
            await asyncio.wait_for(asyncio.shield(known), 30)
    assert (watch.absent, known.done(), watch.is_unknown(TOLERANCE_S)) == (
        (False, False, True) if status == 403 else (True, True, False)
    )
    for each in (known, task):
        each.cancel()
    await asyncio.gather(known, task, return_exceptions=True)
