"""The VEN on a real API server, with its own roles, between a VTN and PowerEvents."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from services.ven.tests.events import HOUR, capacity, subscription
from services.ven.tests.vtn import VEN, Vtn
from tests.e2e.view import ClusterView
from tests.e2e.waiting import eventually

from joulie_api.resources import POWER_EVENTS
from joulie_core.timestamps import rfc3339
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack

pytestmark = pytest.mark.e2e

_INTERVAL_S = 1.0


@pytest.fixture
async def ven(devcluster: DevCluster, bare: ClusterView, vtn: Vtn, tmp_path: Path) -> AsyncIterator[None]:
    (tmp_path / "client-id").write_text(VEN[0])
    (tmp_path / "client-secret").write_text(VEN[1])
    settings = {
        "VTN_URL": vtn.url,
        "VTN_CREDENTIALS_DIR": str(tmp_path),
        "VTN_PROGRAM": "dispatch",
        "VTN_POLL_INTERVAL": f"{_INTERVAL_S}s",
        "VEN_NAME": "hall-1",
        "POWER_DOMAIN": "site",
        "SITE_OTHER_WATTS": "100000",
        "IF_SOURCE_LOST": "Limit",
        "SOURCE_LOST_LIMIT_WATTS": "50000",
    }
    stack = JoulieStack(devcluster)
    try:
        await stack.start(Service.VEN, env=settings)
        yield
    finally:
        await stack.down()


async def test_the_events_of_a_vtn_are_power_events_within_a_poll(bare: ClusterView, ven: object, vtn: Vtn) -> None:
    async def found() -> list[tuple[int, str | None, str | None]]:
        specs = [each["spec"] for each in (await bare.objects(POWER_EVENTS)).values()]
        return sorted(((each["limitWatts"], each["start"], each.get("end")) for each in specs), key=lambda e: e[1])

    async def become(*expected: tuple[int, str | None, str | None]) -> None:
        assert await found() == list(expected)

    start_s = int(time.time()) + HOUR
    start, end = rfc3339(start_s, "seconds"), rfc3339(start_s + HOUR, "seconds")
    since = "2023-02-10T00:00:00Z"
    vtn.put(**subscription(300))
    event_id = vtn.put(**capacity(800, start_s))
    scheduled = ((200_000, since, start), (700_000, start, end), (200_000, end, None))
    # The interval, and time of a machine with other work.
    assert await eventually(lambda: become(*scheduled), within_s=20) < _INTERVAL_S + 10

    vtn.change(event_id, **capacity(250, start_s))
    await eventually(lambda: become(scheduled[0], (150_000, start, end), scheduled[2]), within_s=20)

    del vtn.events[event_id]
    await eventually(lambda: become((200_000, since, None)), within_s=20)
