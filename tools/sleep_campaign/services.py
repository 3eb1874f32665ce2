"""Joulie's operator and its out-of-band service, whole, in this process and in virtual time: each can be killed."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any, Final, cast

from tools.sleep_campaign.api import BmcNetwork, CampaignApi
from tools.sleep_campaign.journal import SITE, Journal
from tools.sleep_campaign.virtual_time import WallClock

import joulie_operator.app as operator_app
import joulie_outofband.app as outofband_app
from joulie_api.app import App
from joulie_api.settings import read_settings
from joulie_operator.settings import settings_model
from joulie_outofband.settings import OutOfBandSettings

NAMESPACE: Final = "joulie-system"
#: Renewed seldom, since that is no part of this campaign; a killed service is replaced after its lease.
_COMMON: Final = {
    "METRICS_ADDR": "127.0.0.1:0",
    "LEASE_DURATION": "30s",
    "LEASE_RENEW_DEADLINE": "25s",
    "LEASE_RETRY_PERIOD": "10s",
}
#: Half as often as by default, which is half of what a campaign costs.
_OUTOFBAND: Final = {"BMC_POLL_INTERVAL": "60s"}
#: What the operator does besides sleep is done seldom.
_OPERATOR: Final = {
    "SLEEP_ENABLED": "true",
    "RECONCILE_INTERVAL": "6h",
    "PLAN_DEBOUNCE": "10m",
    "TWIN_INTERVAL": "6h",
    "TWIN_HEARTBEAT": "6h",
    "EVENTS_PER_SECOND": "1000",
}

#: Runs a service until it ends; takes whether it is still there, and gets its frame.
RunService = Callable[[Callable[[], bool], Callable[[App], None]], Awaitable[None]]


class CampaignService:
    """One service: started, killed at any point of its work, and started again."""

    def __init__(self, name: str, wall: WallClock, run: RunService, journal: Journal) -> None:
        self.name = name
        self.wall = wall
        #: Defects of Joulie that it has contained, over all its runs.
        self.defects = 0.0
        #: Since when it runs; None while it does not.
        self.since_s: float | None = None
        self._run_once, self._journal = run, journal
        self._app: App | None = None
        #: Number of the process; requests of one that was killed are not sent.
        self._number = 0
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        """Whether it is there, or is started again by itself."""
        return self._task is not None

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._task is None:
            self._journal.note(SITE, f"started: {self.name}")
            self._task = self._loop.create_task(self._run(), name=self.name)

    async def kill(self) -> None:
        """Break it off in the middle of whatever it does; its lease stays."""
        task, self._task = self._task, None
        if task is not None:
            self._journal.note(SITE, f"killed: {self.name}")
            self._number += 1
            task.cancel()
            await asyncio.wait({task})

    async def _run(self) -> None:
        """Run it, and start it again where it ends, as a Deployment does."""
        while True:
            self.since_s, self._number = self._loop.time(), self._number + 1
            try:
                await self._run_once(partial(self._is, self._number), self._observe)
            except Exception as error:  # noqa: BLE001 - a process that ends is started again
                self._journal.note(SITE, f"ended: {self.name}: {type(error).__name__}: {error}")
            finally:
                self.since_s = None
                self.count_defects()
            await asyncio.sleep(10.0)

    def _is(self, number: int) -> bool:
        return self._number == number

    def _observe(self, app: App) -> None:
        self._app = app

    def count_defects(self) -> None:
        """Add those of the process that runs, or has just ended, once."""
        app, self._app = self._app, None
        for family in app.registry.collect() if app is not None else ():
            if family.name == "joulie_internal_errors":
                self.defects += sum(each.value for each in family.samples if each.name.endswith("_total"))


def make_services(
    api: CampaignApi, network: BmcNetwork, journal: Journal, settings: Mapping[str, str]
) -> tuple[CampaignService, CampaignService]:
    """Return the operator and the out-of-band service, each with a wall clock of its own."""
    loop = asyncio.get_running_loop()
    walls = WallClock(loop), WallClock(loop)
    for module, wall in zip((operator_app, outofband_app), walls, strict=True):
        _set_clock(module, wall)

    async def operate(alive: Callable[[], bool], observe: Callable[[App], None]) -> None:
        env = {**_COMMON, **_OPERATOR, "POD_NAMESPACE": NAMESPACE, "POD_NAME": "operator", **settings}
        found = read_settings(settings_model(), env)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(api.client(f"{operator_app.SERVICE}/campaign", alive))
            app = await stack.enter_async_context(App(found, service=operator_app.SERVICE))
            observe(app)
            operator_app.Operator(found, app, client, cast(Any, None)).start()
            await app.wait()

    async def reach(alive: Callable[[], bool], observe: Callable[[App], None]) -> None:
        env = {**_COMMON, **_OUTOFBAND, "POD_NAMESPACE": NAMESPACE, "POD_NAME": "outofband", **settings}
        found = read_settings(OutOfBandSettings, env)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(api.client(f"{outofband_app.SERVICE}/campaign", alive))
            app = await stack.enter_async_context(App(found, service=outofband_app.SERVICE))
            observe(app)
            outofband_app.OutOfBand(found, app, client, cast(Any, network)).start()
            await app.wait()

    return (
        CampaignService("operator", walls[0], operate, journal),
        CampaignService("out-of-band service", walls[1], reach, journal),
    )


def _set_clock(module: ModuleType, wall: WallClock) -> None:
    """Have a service read its own wall clock; what else is in the process keeps the real one."""
    module.time = SimpleNamespace(time=wall.time)  # type: ignore[attr-defined]  # the module of that name
